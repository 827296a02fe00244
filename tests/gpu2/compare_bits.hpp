// SPDX-License-Identifier: Apache-2.0
// Results that are compared on the GPU, so that each of many launches is.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace tessera::gemm_collectives {

/// Adds to `differing` how many of `count` 16-bit elements are not those of `expected`, and poisons them:
/// what the next launch does not write differs.
cudaError_t compare_and_poison(void* results, void const* expected, std::size_t count,
                               unsigned long long* differing, cudaStream_t stream);

}  // namespace tessera::gemm_collectives
