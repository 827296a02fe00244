// SPDX-License-Identifier: Apache-2.0
// SwiGLU, in a class derived from a collective epilogue of CUTLASS that stores tiles of half the width: row
// 2f of b is gate f and row 2f + 1 is up f, so that each thread holds both of a feature in neighbouring sums.
#pragma once

#include <cutlass/cutlass.h>
#include <cutlass/fast_math.h>
#include <cutlass/numeric_conversion.h>
#include <cute/tensor.hpp>

#include "wide_wgmma.cuh"

namespace tessera::gemm_sm90 {

/// gate / (1 + exp(-gate)) * up, with one special function instead of two.
CUTLASS_DEVICE float silu_times(float gate, float up) {
  float const half = 0.5f * gate;
  return (half + half * cutlass::fast_tanh(half)) * up;
}

/// From the sums of N columns of (gate, up) pairs, those of N / 2 columns as a product that wide would have
/// left them, rounded to Element. Of 16 columns, thread c of four has pairs c and 4 + c of two rows, and
/// shall have 2c and 2c + 1: one bit of the pair's number moves from the register to the lane and one back,
/// with both rows in one word.
template <class Element, class Sums, class Half>
CUTLASS_DEVICE void pair_up(Sums const& sums, Half& half, int thread) {
  using namespace cute;
  static_assert(size<0, 0>(Sums{}.layout()) == 2 && size<0, 1>(Sums{}.layout()) == 2);
  static_assert(size<0, 2>(Sums{}.layout()) == 2 * size<0, 2>(Half{}.layout()));
  using Pack = cutlass::NumericArrayConverter<Element, float, 2>;
  using Unpack = cutlass::NumericArrayConverter<float, Element, 2>;
  auto bits = [](auto const& two) { return reinterpret_cast<uint32_t const&>(two); };
  bool const odd = thread & 1;
  // Of the four threads, 1 and 2 change places.
  int const quad = thread & 3;
  int const from = (thread & 28) | (quad == 1 ? 2 : quad == 2 ? 1 : quad);
#pragma unroll
  for (int m = 0; m < size<1>(half); ++m) {
#pragma unroll
    for (int eight = 0; eight < size<0, 2>(half); ++eight) {
      uint32_t word[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        cutlass::Array<float, 2> rows;
        for (int row = 0; row < 2; ++row)
          rows[row] = silu_times(sums(make_coord(0, row, 2 * eight + i), m, 0),
                                 sums(make_coord(1, row, 2 * eight + i), m, 0));
        word[i] = bits(Pack{}(rows));
      }
      uint32_t const got = __shfl_xor_sync(~0u, odd ? word[0] : word[1], 1);
      uint32_t const mine[2] = {odd ? got : word[0], odd ? word[1] : got};
#pragma unroll
      for (int column = 0; column < 2; ++column) {
        uint32_t const both = __shfl_sync(~0u, mine[column], from);
        auto const rows = Unpack{}(reinterpret_cast<cutlass::Array<Element, 2> const&>(both));
        for (int row = 0; row < 2; ++row) half(make_coord(column, row, eight), m, 0) = rows[row];
      }
    }
  }
}

/// `Base` is an epilogue for tiles of Tile's rows and half its columns.
template <class Base, class Tile, class AtomLayout>
struct GatedEpilogue : Base {
  using typename Base::TensorStorage;
  using Params = typename Base::Params;
  using Element = typename Base::ElementD;
  using HalfTile = typename Base::CtaTileMNK;
  using HalfMma =
      decltype(cute::make_tiled_mma(cute::MMA_Atom<SumsOf64Rows<cute::size<1>(HalfTile{})>>{}, AtomLayout{}));

  template <class Shape>
  CUTLASS_HOST_DEVICE static auto half_of(Shape shape) {
    cute::get<1>(shape) /= 2;
    return shape;
  }

  template <class Shape, class Arguments>
  static Params to_underlying_arguments(Shape const& shape, Arguments const& arguments, void* workspace) {
    return Base::to_underlying_arguments(half_of(shape), arguments, workspace);
  }
  template <class Shape, class Arguments>
  static bool can_implement(Shape const& shape, Arguments const& arguments) {
    return Base::can_implement(half_of(shape), arguments);
  }

  /// Stores of a tile.
  template <class Any>
  CUTLASS_HOST_DEVICE static constexpr int get_load_pipe_increment(Any) {
    return Base::get_load_pipe_increment(HalfTile{});
  }
  template <class Any>
  CUTLASS_HOST_DEVICE static constexpr int get_store_pipe_increment(Any) {
    return Base::get_store_pipe_increment(HalfTile{});
  }

  CUTLASS_HOST_DEVICE GatedEpilogue(Params const& params, TensorStorage& storage) : Base(params, storage) {}

  template <class LoadPipeline, class LoadState, class StorePipeline, class StoreState, class ProblemShape,
            class TileShape, class Coord, class Sums, class TiledMma>
  CUTLASS_DEVICE auto store(LoadPipeline load_pipeline, LoadState load_state, StorePipeline store_pipeline,
                            StoreState store_state, ProblemShape shape, TileShape, Coord coord, Sums sums,
                            TiledMma, int thread, TensorStorage& storage, int subtile = -1) {
    using namespace cute;
    static_assert(size(TiledMma{}) == size(HalfMma{}));
    Tensor half = partition_fragment_C(HalfMma{}, take<0, 2>(HalfTile{}));
    pair_up<Element>(sums, half, thread);
    return Base::store(load_pipeline, load_state, store_pipeline, store_state, half_of(shape), HalfTile{},
                       coord, half, HalfMma{}, thread, storage, subtile);
  }
};

}  // namespace tessera::gemm_sm90
