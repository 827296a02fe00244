// SPDX-License-Identifier: Apache-2.0
// What an MLP for few tokens cannot be faster than.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace tessera::bench {

/// Reads memory as fast as the GPU can and does nothing with it: bulk copies into rings in shared memory.
cudaError_t stream_through(void const* memory, std::size_t bytes, int blocks, cudaStream_t stream);

}  // namespace tessera::bench
