// SPDX-License-Identifier: Apache-2.0
// A step of a rank's slab as a launch: a kernel behind plain values.
#pragma once

#include <cuda_runtime_api.h>

#include <tessera/sync/wait.cuh>

#include "kernels/lattice_boltzmann/slab.hpp"

namespace tessera::lattice_boltzmann {

struct SlabStep {
  BoxArguments box;
  float const* from = nullptr;
  float* to = nullptr;
  SlabWay ways[k_ends];
  SlabWords* words = nullptr;
  SlabWords* words_of[k_ends] = {};  ///< the neighbours'; null: a wall
  int neighbours[k_ends] = {-1, -1};
  unsigned late = 0;    ///< for tests: not 0: warps sleep now and then
  bool silent = false;  ///< for tests: the neighbours are told nothing
};

/// Loads it on the current device: behind a kernel that waits it would never start.
cudaError_t load_slab_steps();
cudaError_t step_slab(SlabStep const& step, Relaxation<float> const& of, DeadlineWatch<> const& watch,
                      cudaStream_t stream);

}  // namespace tessera::lattice_boltzmann
