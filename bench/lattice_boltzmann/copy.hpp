// SPDX-License-Identifier: Apache-2.0
// A copy in device memory, whose bandwidth is the roofline of steps that read and write each population once.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace tessera::lattice_boltzmann {

/// `bytes`: a multiple of 32 KiB.
cudaError_t copy(void const* from, void* to, std::size_t bytes, cudaStream_t stream);

}  // namespace tessera::lattice_boltzmann
