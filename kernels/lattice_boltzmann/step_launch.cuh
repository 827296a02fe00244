// SPDX-License-Identifier: Apache-2.0
// Steps that are launches, one behind the other: each is brought to the GPU while the one before still runs
// (programmatic dependent launch), and waits for its end there.
#pragma once

#include <tessera/sync/launch.cuh>

#include "src/gpu/launch.hpp"

namespace tessera::lattice_boltzmann {

/// First in a step's kernel, by all threads.
__device__ inline void behind_the_step_before() {
  pdl_trigger();
  pdl_wait();
}

struct StepShape {
  unsigned blocks, threads;
  std::size_t shared = 0;  ///< bytes
};

template <class... Parameters, class... Arguments>
cudaError_t launch_step(StepShape const& step, cudaStream_t stream, void (*kernel)(Parameters...),
                        Arguments const&... arguments) {
  gpu::Shape shape;
  shape.blocks.x = step.blocks, shape.threads.x = step.threads, shape.shared = step.shared;
  shape.programmatic = true;
  return gpu::try_launch(shape, stream, kernel, arguments...);
}

}  // namespace tessera::lattice_boltzmann
