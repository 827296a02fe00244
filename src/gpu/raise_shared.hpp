// SPDX-License-Identifier: Apache-2.0
// How much dynamic shared memory a kernel's launches may ask for: an attribute that the whole process shares.
#pragma once

#include <cuda_runtime_api.h>

#include <mutex>

namespace tessera::gpu {

/// At least so many bytes from now on; what was allowed before stays. Of two threads neither undoes what the
/// other has done, if both call this.
inline cudaError_t raise_shared(void const* function, int bytes) {
  static std::mutex mutex;
  std::lock_guard const lock(mutex);
  cudaFuncAttributes attributes{};
  if (auto const error = cudaFuncGetAttributes(&attributes, function); error != cudaSuccess) return error;
  if (bytes <= attributes.maxDynamicSharedSizeBytes) return cudaSuccess;
  return cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

}  // namespace tessera::gpu
