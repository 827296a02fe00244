// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace tessera::gpu {

/// A function of the driver, without linking it; null if the driver does not have it.
template <class Function>
Function driver_function(char const* name, unsigned version) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  auto const error = cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result);
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<Function>(found)
                                                                       : nullptr;
}

}  // namespace tessera::gpu
