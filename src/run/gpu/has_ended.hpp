// SPDX-License-Identifier: Apache-2.0
// Whether what was recorded behind some work has been reached.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/relaxed_capture.hpp"

namespace tessera::run {

/// False where CUDA does not say so, whatever else it says. While another thread captures in the mode that is
/// PyTorch's default, asking without RelaxedCapture is an error, and makes that capture invalid.
inline bool has_ended(cudaEvent_t event) {
  gpu::RelaxedCapture const relaxed;
  auto const state = cudaEventQuery(event);
  if (state != cudaSuccess && state != cudaErrorNotReady) (void)cudaGetLastError();
  return state == cudaSuccess;
}

}  // namespace tessera::run
