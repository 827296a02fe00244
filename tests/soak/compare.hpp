// SPDX-License-Identifier: Apache-2.0
// Comparisons on the GPU, each behind a launch, so that many of them cost the host nothing.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace tessera::soak {

/// Zeroed device memory.
struct Comparisons {
  unsigned long long done = 0;
  unsigned long long differing = 0;  ///< words, of all comparisons
};

/// Enqueues one of `words` words of 16 bits. `poison`: leaves all ones, so that what the next launch does not
/// write differs.
cudaError_t enqueue_comparison(void* got, void const* expected, std::size_t words, bool poison,
                               Comparisons* comparisons, cudaStream_t stream);

}  // namespace tessera::soak
