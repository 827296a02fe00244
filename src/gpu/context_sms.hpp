// SPDX-License-Identifier: Apache-2.0
// How many SMs kernels can really use: a green context has a part of its device's.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "driver_function.hpp"

namespace tessera::gpu {

/// Null: there is none yet.
inline CUcontext current_context() {
  static auto const current = driver_function<decltype(&cuCtxGetCurrent)>("cuCtxGetCurrent", 4000);
  CUcontext context = nullptr;
  return current != nullptr && current(&context) == CUDA_SUCCESS ? context : nullptr;
}

/// Of the current context; 0 where the driver cannot say: then it has no green contexts.
inline int context_sms() {
  static auto const resource_of =
      driver_function<decltype(&cuCtxGetDevResource)>("cuCtxGetDevResource", 12040);
  CUdevResource resource{};
  auto const context = current_context();
  if (resource_of == nullptr || context == nullptr ||
      resource_of(context, &resource, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS)
    return 0;
  return static_cast<int>(resource.sm.smCount);
}

/// Of a stream's green context; 0: it is in none.
inline int stream_sms(cudaStream_t stream) {
  static auto const green_of = driver_function<decltype(&cuStreamGetGreenCtx)>("cuStreamGetGreenCtx", 12040);
  static auto const resource_of =
      driver_function<decltype(&cuGreenCtxGetDevResource)>("cuGreenCtxGetDevResource", 12040);
  CUgreenCtx green = nullptr;
  CUdevResource resource{};
  if (green_of == nullptr || resource_of == nullptr || green_of(stream, &green) != CUDA_SUCCESS ||
      green == nullptr || resource_of(green, &resource, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS)
    return 0;
  return static_cast<int>(resource.sm.smCount);
}

}  // namespace tessera::gpu
