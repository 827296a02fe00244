// SPDX-License-Identifier: Apache-2.0
// Posting, in a class derived from a collective epilogue of CUTLASS that stores through TMA.
#pragma once

#include <cutlass/cutlass.h>
#include <cute/tensor.hpp>
#include <tessera/sync.cuh>

namespace tessera::gemm_sm90 {

struct PostParams {
  unsigned* semaphores = nullptr;  ///< nullptr: nothing is posted
  int rows = 0;
  int columns = 0;
  int groups = 0;  ///< semaphores in a row
  int columns_per_semaphore = 1;
};

/// Says that a tile is complete. Called by the threads that stored it, numbered from 0, after the last store;
/// the first warp issued all of them. Release, device scope.
CUTLASS_DEVICE void post_tile(PostParams const& post, int row, int column, int thread) {
  if (post.semaphores == nullptr || thread >= 32) return;
  // Not `.read`, which is enough to use the shared memory again: the writes themselves must be done.
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  fence_proxy_async();
  __syncwarp();
  // Tiles that only pad a cluster or a swizzle are nobody's.
  if (thread == 0 && row < post.rows && column < post.columns)
    add_release<Scope::device>(post.semaphores + row * post.groups + column / post.columns_per_semaphore, 1u);
}

/// The kernel calls this store() where it would have called the base's, with the same arguments: cooperative
/// kernels with the threads of both warp groups, ping-pong kernels with those of the one that has the tile.
/// `rows` says which of CUTLASS's coordinates counts the output's rows of tiles: 0 is M, 1 is N.
template <class Base, int rows = 0>
struct PostEpilogue : Base {
  using typename Base::TensorStorage;

  struct Arguments : Base::Arguments {
    PostParams post;
  };
  struct Params : Base::Params {
    PostParams post;
  };

  template <class ProblemShape>
  static Params to_underlying_arguments(ProblemShape const& shape, Arguments const& arguments,
                                        void* workspace) {
    return {Base::to_underlying_arguments(shape, static_cast<typename Base::Arguments const&>(arguments),
                                          workspace),
            arguments.post};
  }

  CUTLASS_HOST_DEVICE PostEpilogue(Params const& params, TensorStorage& storage)
      : Base(params, storage), post_(params.post) {}

  template <class LoadPipeline, class LoadState, class StorePipeline, class StoreState, class ProblemShape,
            class TileShape, class Coord, class Accumulators, class TiledMma>
  CUTLASS_DEVICE auto store(LoadPipeline load_pipeline, LoadState load_state, StorePipeline store_pipeline,
                            StoreState store_state, ProblemShape shape, TileShape tile_shape, Coord coord,
                            Accumulators accumulators, TiledMma tiled_mma, int thread, TensorStorage& storage,
                            int subtile = -1) {
    auto states = Base::store(load_pipeline, load_state, store_pipeline, store_state, shape, tile_shape,
                              coord, accumulators, tiled_mma, thread, storage, subtile);
    post_tile(post_, cute::get<rows>(coord), cute::get<1 - rows>(coord), thread);
    return states;
  }

 private:
  PostParams const& post_;
};

}  // namespace tessera::gemm_sm90
