// SPDX-License-Identifier: Apache-2.0
// Two steps of cells in device memory as one launch (trip.hpp).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/lattice_boltzmann/trip.hpp"

namespace tessera::lattice_boltzmann {

/// Before the first launch: the kernel's shared memory.
cudaError_t prepare_trips(BoxArguments const& box);
/// From one lattice to another; layout `own`. A block for each tile of the cut, which trip_cut() makes.
/// `late`: see dawdle().
cudaError_t trip_between(BoxArguments const& box, ChipCut const& cut, float const* from, float* to,
                         Relaxation<float> const& of, unsigned late, cudaStream_t stream);

}  // namespace tessera::lattice_boltzmann
