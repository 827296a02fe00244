// SPDX-License-Identifier: Apache-2.0
// A CUDA call that fails throws, with the line where it stands.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace tessera::gpu {

inline void ok(cudaError_t status, int line = __builtin_LINE(), char const* file = __builtin_FILE()) {
  if (status != cudaSuccess)
    throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " +
                             cudaGetErrorName(status) + ", " + cudaGetErrorString(status));
}

/// After a launch: did it start?
inline void launched(int line = __builtin_LINE(), char const* file = __builtin_FILE()) {
  ok(cudaGetLastError(), line, file);
}

}  // namespace tessera::gpu
