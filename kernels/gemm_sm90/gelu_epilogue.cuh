// SPDX-License-Identifier: Apache-2.0
// GeLU or nothing, chosen at run time, in a class derived from a collective epilogue of CUTLASS. All sums go
// through it before the first is stored: a switch in CUTLASS's tree of visitors leaves a hole in the code of
// each store, and a tile that is a block's only one then runs through a cold instruction cache.
#pragma once

#include <cutlass/cutlass.h>
#include <cutlass/fast_math.h>
#include <cute/tensor.hpp>

namespace tessera::gemm_sm90 {

/// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
CUTLASS_DEVICE float gelu(float x) {
  float const inner = x * (0.7978845608f + 0.0356774081f * x * x);
  float const half = 0.5f * x;
  return half + half * cutlass::fast_tanh(inner);
}

template <class Base>
struct GeluEpilogue : Base {
  using typename Base::TensorStorage;

  struct Arguments : Base::Arguments {
    bool gelu = false;
  };
  struct Params : Base::Params {
    bool gelu = false;
  };

  template <class ProblemShape>
  static Params to_underlying_arguments(ProblemShape const& shape, Arguments const& arguments,
                                        void* workspace) {
    return {Base::to_underlying_arguments(shape, static_cast<typename Base::Arguments const&>(arguments),
                                          workspace),
            arguments.gelu};
  }

  CUTLASS_HOST_DEVICE GeluEpilogue(Params const& params, TensorStorage& storage)
      : Base(params, storage), gelu_(params.gelu) {}

  template <class LoadPipeline, class LoadState, class StorePipeline, class StoreState, class ProblemShape,
            class TileShape, class Coord, class Sums, class TiledMma>
  CUTLASS_DEVICE auto store(LoadPipeline load_pipeline, LoadState load_state, StorePipeline store_pipeline,
                            StoreState store_state, ProblemShape shape, TileShape tile_shape, Coord coord,
                            Sums sums, TiledMma tiled_mma, int thread, TensorStorage& storage,
                            int subtile = -1) {
    if (gelu_) {
#pragma unroll
      for (int i = 0; i < cute::size(sums); ++i) sums(i) = gelu(sums(i));
    }
    return Base::store(load_pipeline, load_state, store_pipeline, store_state, shape, tile_shape, coord, sums,
                       tiled_mma, thread, storage, subtile);
  }

 private:
  bool const gelu_;
};

}  // namespace tessera::gemm_sm90
