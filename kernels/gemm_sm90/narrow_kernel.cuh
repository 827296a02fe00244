// SPDX-License-Identifier: Apache-2.0
// Tiles 168 columns wide: 33 of them cover 5504 columns, so that four rows of tiles are one to each of 132
// multiprocessors. CUTLASS cannot load 168 rows through TMA to a cluster of two. So to CUTLASS these tiles
// are 176 wide; the instruction multiplies 168 of them, tiles lie 168 apart, and only those columns are
// stored.
#pragma once

#include "gemm_kernel.cuh"

namespace tessera::gemm_sm90 {

using cutlass_sm90::BandScheduler;

constexpr int narrow_columns = 168;
constexpr int loaded_columns = 176;

/// Of 176 columns of sums, the last 8 are nothing.
template <class Element>
struct NarrowWgmma {
  using DRegisters = void;
  using ARegisters = uint64_t[1];
  using BRegisters = uint64_t[1];
  using CRegisters = float[loaded_columns / 2];
};

template <class Element, class D, class DLayout, class A, class ALayout, class B, class BLayout, class C,
          class CLayout>
CUTE_HOST_DEVICE void mma_unpack(cute::MMA_Traits<NarrowWgmma<Element>> const& traits,
                                 cute::Tensor<D, DLayout>& c, cute::Tensor<A, ALayout> const& a,
                                 cute::Tensor<B, BLayout> const& b, cute::Tensor<C, CLayout> const&) {
  cute::MMA_Traits<WideWgmma<narrow_columns, Element>> used;
  used.accumulate_ = traits.accumulate_;
  auto sums = cute::make_tensor(c.data(), cute::Layout<cute::Int<narrow_columns / 2>>{});
  mma_unpack(used, sums, a, b, sums);
}

/// Tiles of b start every 168 rows.
template <class Base>
struct NarrowMainloop : Base {
  template <class T, int... axis>
  CUTLASS_DEVICE static auto apart(cute::ScaledBasis<T, axis...> const&) {
    return cute::ScaledBasis<cute::Int<narrow_columns>, axis...>{};
  }

  template <class ProblemShape>
  CUTLASS_DEVICE auto load_init(ProblemShape const& shape, typename Base::Params const& params) const {
    using namespace cute;
    auto inputs = Base::load_init(shape, params);
    auto const& b = get<1>(inputs);
    auto const strides = replace<2>(b.stride(), apart(get<2>(b.stride())));
    return make_tuple(get<0>(inputs), make_tensor(b.data(), make_layout(b.shape(), strides)));
  }
};

struct NarrowSchedulerTag {};

/// The order of BandScheduler over such tiles; of its bands, one row, and eight for anything else.
class NarrowScheduler : public BandScheduler {
 public:
  using BandScheduler::BandScheduler;
  using BandScheduler::Params;

  template <class ProblemShape, class TileShape, class ClusterShape>
  static Params to_underlying_arguments(ProblemShape shape, TileShape tile, ClusterShape cluster,
                                        cutlass::KernelHardwareInfo const& hardware,
                                        Arguments const& arguments, void* workspace = nullptr,
                                        uint32_t subtiles = 1, uint32_t alignment = 1) {
    Arguments mine = arguments;
    mine.band = arguments.raster_order == RasterOrderOptions::AlongM ? 8 : 1;
    Params params = BandScheduler::to_underlying_arguments(shape, tile, cluster, hardware, mine, workspace,
                                                           subtiles, alignment);
    int const columns = (cute::get<1>(shape) + narrow_columns - 1) / narrow_columns;
    params.columns = (columns + params.cluster_columns - 1) / params.cluster_columns;
    return params;
  }

  template <class Any, class... More>
  static dim3 get_grid_shape(Params const& params, Any const&, More const&... more) {
    auto const& hardware = cute::get<2>(cute::make_tuple(more...));
    int const most = hardware.sm_count / (params.cluster_rows * params.cluster_columns);
    int const clusters = cute::max(1, cute::min(most, params.rows * params.columns));
    return dim3(static_cast<unsigned>(params.cluster_rows),
                static_cast<unsigned>(clusters * params.cluster_columns), 1);
  }
};

/// `Base` stores tiles 168 wide.
template <class Base, class AtomLayout>
struct NarrowEpilogue : Base {
  using typename Base::Params;
  using typename Base::TensorStorage;
  using NarrowTile = typename Base::CtaTileMNK;
  using Mma = decltype(cute::make_tiled_mma(cute::MMA_Atom<SumsOf64Rows<narrow_columns>>{}, AtomLayout{}));

  template <class Any>
  CUTLASS_HOST_DEVICE static constexpr int get_load_pipe_increment(Any) {
    return Base::get_load_pipe_increment(NarrowTile{});
  }
  template <class Any>
  CUTLASS_HOST_DEVICE static constexpr int get_store_pipe_increment(Any) {
    return Base::get_store_pipe_increment(NarrowTile{});
  }

  CUTLASS_HOST_DEVICE NarrowEpilogue(Params const& params, TensorStorage& storage) : Base(params, storage) {}

  template <class LoadPipeline, class LoadState, class StorePipeline, class StoreState, class ProblemShape,
            class TileShape, class Coord, class Sums, class TiledMma>
  CUTLASS_DEVICE auto store(LoadPipeline load_pipeline, LoadState load_state, StorePipeline store_pipeline,
                            StoreState store_state, ProblemShape shape, TileShape, Coord coord, Sums sums,
                            TiledMma, int thread, TensorStorage& storage, int subtile = -1) {
    using namespace cute;
    Tensor narrow = partition_fragment_C(Mma{}, take<0, 2>(NarrowTile{}));
#pragma unroll
    for (int m = 0; m < size<1>(narrow); ++m) {
#pragma unroll
      for (int i = 0; i < size<0>(narrow); ++i) narrow(i, m, 0) = sums(i, m, 0);
    }
    return Base::store(load_pipeline, load_state, store_pipeline, store_state, shape, NarrowTile{}, coord,
                       narrow, Mma{}, thread, storage, subtile);
  }
};

/// 84 columns of 2 bytes are no multiple of TMA's 16, so these tiles are stored by threads, 8 bytes at a
/// time. `Base` is any epilogue with room for a tile.
template <class Base>
struct NarrowGatedEpilogue : Base {
  using typename Base::TensorStorage;
  using Element = typename Base::ElementD;
  static constexpr int rows = cute::size<0>(typename Base::CtaTileMNK{});
  static constexpr int columns = narrow_columns / 2;
  static_assert(sizeof(typename Base::TensorStorage) >= rows * columns * sizeof(Element));

  struct Params : Base::Params {
    Element* d = nullptr;
    int64_t stride = 0;
  };

  template <class Shape>
  CUTLASS_HOST_DEVICE static auto half_of(Shape shape) {
    cute::get<1>(shape) /= 2;
    return shape;
  }
  template <class Shape, class Arguments>
  static Params to_underlying_arguments(Shape const& shape, Arguments const& arguments, void* workspace) {
    return {Base::to_underlying_arguments(half_of(shape), arguments, workspace),
            const_cast<Element*>(arguments.ptr_D), cute::get<0>(arguments.dD)};
  }
  template <class Shape, class Arguments>
  static bool can_implement(Shape const& shape, Arguments const& arguments) {
    return Base::can_implement(half_of(shape), arguments);
  }
  template <class Any>
  CUTLASS_HOST_DEVICE static constexpr int get_load_pipe_increment(Any) {
    return 1;
  }
  template <class Any>
  CUTLASS_HOST_DEVICE static constexpr int get_store_pipe_increment(Any) {
    return 1;
  }

  CUTLASS_HOST_DEVICE NarrowGatedEpilogue(Params const& params, TensorStorage& storage)
      : Base(params, storage), d_(params.d), stride_(params.stride) {}

  template <class LoadPipeline, class LoadState, class StorePipeline, class StoreState, class ProblemShape,
            class TileShape, class Coord, class Sums, class TiledMma>
  CUTLASS_DEVICE auto store(LoadPipeline, LoadState load_state, StorePipeline, StoreState store_state,
                            ProblemShape shape, TileShape, Coord coord, Sums sums, TiledMma, int thread,
                            TensorStorage& storage, int = -1) {
    using namespace cute;
    constexpr int threads = size(TiledMma{});
    auto synchronize = [] {
      cutlass::arch::NamedBarrier::sync(threads, cutlass::arch::ReservedNamedBarriers::EpilogueBarrier);
    };
    auto* const tile = reinterpret_cast<Element*>(&storage);
    int const lane = thread & 31;
    synchronize();  // the tile before this one has been read
#pragma unroll
    for (int m = 0; m < size<1>(sums); ++m) {
      int const first = (m * (threads / 128) + thread / 128) * 64 + (thread & 127) / 32 * 16 + lane / 4;
#pragma unroll
      for (int four = 0; four < columns / 4; ++four) {
#pragma unroll
        for (int row = 0; row < 2; ++row)
          tile[(first + 8 * row) * columns + 4 * four + (lane & 3)] = static_cast<Element>(
              silu_times(sums(make_coord(0, row, four), m, 0), sums(make_coord(1, row, four), m, 0)));
      }
    }
    synchronize();
    int const row = get<0>(coord) * rows;
    int const column = get<1>(coord) * columns;
    int const last_row = get<0>(shape) - row;
    int const last_column = get<1>(shape) / 2 - column;
    Element* const d = d_ + row * stride_ + column;
    for (int i = thread; i < rows * (columns / 4); i += threads) {
      int const r = i / (columns / 4);
      int const c = i % (columns / 4) * 4;
      if (r < last_row && c < last_column)
        *reinterpret_cast<uint2*>(d + r * stride_ + c) = *reinterpret_cast<uint2 const*>(tile + 4 * i);
    }
    // Readers may come through TMA; and one thread posts for all.
    fence_proxy_async();
    synchronize();
    return cute::make_tuple(load_state, store_state);
  }

 private:
  Element* const d_;
  int64_t const stride_;
};

/// As Shape, for 128 x 168 x 64 with a cluster of two rows of tiles.
template <bool Pingpong, class Element_ = cutlass::bfloat16_t, Gate gate = Gate::none>
struct NarrowShape {
  using Loaded = Shape<TileOf<128, loaded_columns, 64, 2, 1, Pingpong>, Element_, gate>;
  static constexpr bool pingpong = Pingpong;
  static constexpr bool gated = gate == Gate::swiglu;
  static constexpr int row_mode = 0;
  static constexpr int splits = 1;
  using Element = Element_;
  using Tile = cute::Shape<cute::_128, cute::Int<narrow_columns>, cute::_64>;
  using Cluster = typename Loaded::Cluster;
  using AtomLayout = typename Loaded::AtomLayout;
  using Store = typename PlainStore<Tile, Cluster, Element, typename Loaded::EpilogueSchedule,
                                    typename Loaded::Fusion, Pingpong, 56>::type;
  using BaseEpilogue = cute::conditional_t<gated, NarrowGatedEpilogue<typename Loaded::PlainEpilogue>,
                                           GeluEpilogue<NarrowEpilogue<Store, AtomLayout>>>;
  using Mma = cute::TiledMMA<cute::MMA_Atom<NarrowWgmma<Element>>, AtomLayout>;
  using BaseMainloop = typename WithMma<typename Loaded::BuiltMainloop, Mma>::type;
  using Mainloop = NarrowMainloop<WaitMainloop<BaseMainloop>>;
  using Epilogue = PostEpilogue<BaseEpilogue, NarrowShape>;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int>, Mainloop, Epilogue,
                                                      NarrowSchedulerTag>;
};

}  // namespace tessera::gemm_sm90

namespace cutlass::gemm::kernel::detail {

template <class ArchTag, class TileShape, class ClusterShape, uint32_t Stages>
struct TileSchedulerSelector<tessera::gemm_sm90::NarrowSchedulerTag, ArchTag, TileShape, ClusterShape,
                             Stages> {
  using Scheduler = tessera::gemm_sm90::NarrowScheduler;
};

}  // namespace cutlass::gemm::kernel::detail

namespace cute {

template <class Element>
struct MMA_Traits<tessera::gemm_sm90::NarrowWgmma<Element>>
    : MMA_Traits<tessera::gemm_sm90::SumsOf64Rows<tessera::gemm_sm90::loaded_columns>> {
  using ValTypeA = Element;
  using ValTypeB = Element;
  using FrgTypeA = GMMA::smem_desc<GMMA::Major::K>;
  using FrgTypeB = GMMA::smem_desc<GMMA::Major::K>;
  GMMA::ScaleOut accumulate_ = GMMA::ScaleOut::One;
};

}  // namespace cute
