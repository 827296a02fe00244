// SPDX-License-Identifier: Apache-2.0
// Refusals of kernels, and CUDA's errors as such.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <tessera/diagnostic.hpp>

namespace tessera::kernels {

inline tl::unexpected<Diagnostics> refusal(char const* code, std::string message, std::string hint,
                                           std::vector<std::string> notes = {}) {
  Diagnostics one(1);
  one.front().code = code;
  one.front().message = std::move(message);
  one.front().suggestion = std::move(hint);
  one.front().notes = std::move(notes);
  return tl::make_unexpected(std::move(one));
}

/// E0511, and the error is taken from CUDA's own memory of it.
inline tl::unexpected<Diagnostics> cuda_failed(cudaError_t error, std::string const& what) {
  (void)cudaGetLastError();
  return refusal("E0511",
                 what + " failed: " + cudaGetErrorName(error) + " (" + cudaGetErrorString(error) + ")",
                 "see whether the device works (nvidia-smi) and whether an earlier kernel failed");
}

}  // namespace tessera::kernels
