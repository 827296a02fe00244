// SPDX-License-Identifier: Apache-2.0
// Posting, in a class derived from a collective epilogue of CUTLASS that stores through TMA.
#pragma once

#include <cutlass/cutlass.h>
#include <cute/tensor.hpp>

#include "synchronization_of.cuh"

namespace tessera::cutlass_sm90 {

/// The kernel calls this store() where it would have called the base's, with the same arguments: cooperative
/// kernels with the threads of both warp groups, ping-pong kernels with those of the one that has the tile.
/// The first warp of them issues all stores, or comes behind a barrier of all. `Owner::Kernel` is the kernel,
/// `Owner::row_mode` says which of CUTLASS's coordinates counts the output's rows of tiles: 0 is M, 1 is N.
template <class Base, class Owner>
struct PostEpilogue : Base {
  using typename Base::Params;
  using typename Base::TensorStorage;
  static constexpr int rows = Owner::row_mode;

  CUTLASS_HOST_DEVICE PostEpilogue(Params const& params, TensorStorage& storage)
      : Base(params, storage), params_(params) {}

  template <class LoadPipeline, class LoadState, class StorePipeline, class StoreState, class ProblemShape,
            class TileShape, class Coord, class Accumulators, class TiledMma>
  CUTLASS_DEVICE auto store(LoadPipeline load_pipeline, LoadState load_state, StorePipeline store_pipeline,
                            StoreState store_state, ProblemShape shape, TileShape tile_shape, Coord coord,
                            Accumulators accumulators, TiledMma tiled_mma, int thread, TensorStorage& storage,
                            int subtile = -1) {
    auto states = Base::store(load_pipeline, load_state, store_pipeline, store_state, shape, tile_shape,
                              coord, accumulators, tiled_mma, thread, storage, subtile);
    if (thread < 32) post(cute::get<rows>(coord), cute::get<1 - rows>(coord));
    return states;
  }

 private:
  CUTLASS_DEVICE void post(int row, int column) const {
    using Kernel = typename Owner::Kernel;
    auto const& plan =
        synchronization_of<Kernel>(static_cast<typename Kernel::EpilogueParams const&>(params_));
    if (!plan.posts) return;
    // Of the blocks that share a tile, one has stored it.
    view_of(plan).post_after_tma_store({{column, row}}, Owner::splits);
  }

  Params const& params_;
};

}  // namespace tessera::cutlass_sm90
