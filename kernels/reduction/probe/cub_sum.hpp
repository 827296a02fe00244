// SPDX-License-Identifier: Apache-2.0
// The library to beat: CUB's sum as the CUDA toolkit has it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

namespace tessera::probe {

/// "3.0.1". Its DeviceReduce::Sum is deterministic from run to run; this version has no other mode.
std::string cub_version();
/// Device memory that a sum of so many elements needs.
std::size_t cub_workspace(unsigned count);
cudaError_t cub_sum(void* workspace, std::size_t bytes, float const* x, unsigned count, float* out,
                    cudaStream_t stream);

}  // namespace tessera::probe
