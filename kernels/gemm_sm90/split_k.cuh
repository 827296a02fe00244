// SPDX-License-Identifier: Apache-2.0
// Two blocks share a tile's depth, where there are too few tiles for the GPU. Each writes its sums; the last
// to arrive adds the other's to its own and stores the tile. Nobody waits, and whoever is last, the sum of
// two has the same bits.
#pragma once

#include <cutlass/barrier.h>
#include <cutlass/cutlass.h>
#include <cute/tensor.hpp>

namespace tessera::gemm_sm90 {

/// Loads one part of the depth; `Base` is a WaitMainloop. CUTLASS's ping-pong kernel takes the number of
/// slices from what load_init() returns.
template <class Base, int splits>
struct SplitMainloop : Base {
  using typename Base::MainloopPipeline;
  using typename Base::Params;
  using typename Base::PipelineState;
  using typename Base::TensorStorage;

  template <class Operand>
  CUTLASS_DEVICE static auto part_of(Operand const& operand) {
    auto const slices = (cute::get<3>(operand.shape()) + splits - 1) / splits;
    return cute::make_tensor(operand.data(),
                             cute::make_layout(cute::replace<3>(operand.shape(), slices), operand.stride()));
  }

  template <class ProblemShape>
  CUTLASS_DEVICE auto load_init(ProblemShape const& shape, Params const& params) const {
    auto inputs = Base::load_init(shape, params);
    return cute::make_tuple(part_of(cute::get<0>(inputs)), part_of(cute::get<1>(inputs)));
  }

  template <class Inputs, class Coord, class Slices>
  CUTLASS_DEVICE void load(Params const& params, MainloopPipeline pipeline, PipelineState state,
                           Inputs const& inputs, Coord const& coord, Slices slices, int count, int thread,
                           uint32_t rank, TensorStorage& storage) {
    int const begin = static_cast<int>(cute::get<3>(coord)) * count;
    for (int i = 0; i < begin; ++i) ++slices;
    // What lies behind the depth is read as zeros.
    this->template load_part<true>(params, pipeline, state, inputs, cute::replace<3>(coord, 0), slices, begin,
                                   count, false, thread, rank, storage);
  }
};

struct SplitParams {
  float* sums = nullptr;         ///< splits x tile elements for each tile
  unsigned* arrivals = nullptr;  ///< one for each tile; never reset
  int columns = 0;               ///< tiles of CUTLASS's N, with those that pad a cluster
};

/// Counts a block, the `threads` of which call; true if it makes the count a multiple of two. What they wrote
/// before is visible to the next block that calls.
CUTLASS_DEVICE bool last_to_arrive(unsigned* counter, int thread, int threads) {
  constexpr auto barrier = static_cast<int>(cutlass::arch::ReservedNamedBarriers::EpilogueBarrier);
  __threadfence();
  asm volatile("barrier.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
  unsigned before = 0;
  if (thread == 0)
    asm volatile("atom.acq_rel.gpu.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  int last = thread == 0 && before % 2 == 1;
  asm volatile(
      "{.reg .pred p, q; setp.ne.s32 p, %0, 0;\n"
      "barrier.red.or.pred q, %1, %2, p;\n"
      "selp.s32 %0, 1, 0, q;}\n"
      : "+r"(last)
      : "r"(barrier), "r"(threads)
      : "memory");
  __threadfence();
  return last != 0;
}

/// `Base` is all the rest of the epilogue, the post included. The part is the coordinate L.
template <class Base, int splits>
struct SplitEpilogue : Base {
  static_assert(splits == 2, "more would need an order");
  using typename Base::TensorStorage;

  struct Arguments : Base::Arguments {
    SplitParams split;
  };
  struct Params : Base::Params {
    SplitParams split;
  };

  template <class ProblemShape>
  static Params to_underlying_arguments(ProblemShape const& shape, Arguments const& arguments,
                                        void* workspace) {
    return {Base::to_underlying_arguments(shape, static_cast<typename Base::Arguments const&>(arguments),
                                          workspace),
            arguments.split};
  }

  CUTLASS_HOST_DEVICE SplitEpilogue(Params const& params, TensorStorage& storage)
      : Base(params, storage), split_(params.split) {}

  template <class LoadPipeline, class LoadState, class StorePipeline, class StoreState, class ProblemShape,
            class TileShape, class Coord, class Sums, class TiledMma>
  CUTLASS_DEVICE auto store(LoadPipeline load_pipeline, LoadState load_state, StorePipeline store_pipeline,
                            StoreState store_state, ProblemShape shape, TileShape tile_shape, Coord coord,
                            Sums sums, TiledMma tiled_mma, int thread, TensorStorage& storage,
                            int subtile = -1) {
    using namespace cute;
    constexpr int threads = size(TiledMma{});
    constexpr int words = size(Sums{}) / 4;
    static_assert(size(Sums{}) % 4 == 0);
    int const tile = static_cast<int>(get<0>(coord)) * split_.columns + static_cast<int>(get<1>(coord));
    int const mine = static_cast<int>(get<3>(coord));
    auto* const parts = reinterpret_cast<float4*>(split_.sums) +
                        static_cast<int64_t>(tile) * splits * words * threads + thread;
#pragma unroll
    for (int i = 0; i < words; ++i)
      __stcg(parts + (mine * words + i) * threads,
             make_float4(sums(4 * i), sums(4 * i + 1), sums(4 * i + 2), sums(4 * i + 3)));
    if (!last_to_arrive(split_.arrivals + tile, thread, threads)) {
      load_state.advance(Base::get_load_pipe_increment(tile_shape));
      store_state.advance(Base::get_store_pipe_increment(tile_shape));
      return cute::make_tuple(load_state, store_state);
    }
#pragma unroll
    for (int i = 0; i < words; ++i) {
      float4 const other = __ldcg(parts + ((1 - mine) * words + i) * threads);
      sums(4 * i) += other.x;
      sums(4 * i + 1) += other.y;
      sums(4 * i + 2) += other.z;
      sums(4 * i + 3) += other.w;
    }
    return Base::store(load_pipeline, load_state, store_pipeline, store_state, shape, tile_shape,
                       replace<3>(coord, 0), sums, tiled_mma, thread, storage, subtile);
  }

 private:
  SplitParams const& split_;
};

}  // namespace tessera::gemm_sm90
