// SPDX-License-Identifier: Apache-2.0
// A kernel that takes an SM's place from a launch that needs them all.
#pragma once

#include <cuda_runtime_api.h>

namespace tessera::few_tokens {

/// Enqueues a block that computes nothing for so long, with so much shared memory that no block of a chain
/// fits beside it. Its code has been loaded when this returns.
cudaError_t hold_an_sm(cudaStream_t stream, double seconds);

}  // namespace tessera::few_tokens
