// SPDX-License-Identifier: Apache-2.0
// CUDA's errors as refusals.
#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string>

#include "tessera/diagnostic.hpp"

namespace tessera {

/// E0511, and the error is taken from CUDA's own memory of it.
inline tl::unexpected<Diagnostics> cuda_failed(cudaError_t error, std::string const& what) {
  (void)cudaGetLastError();
  Diagnostic d;
  d.code = "E0511";
  d.message = fmt::format("{} failed: {} ({})", what, cudaGetErrorName(error), cudaGetErrorString(error));
  d.suggestion = "see whether the device works (nvidia-smi) and whether an earlier kernel failed";
  return refuse(std::move(d));
}

}  // namespace tessera
