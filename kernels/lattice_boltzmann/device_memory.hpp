// SPDX-License-Identifier: Apache-2.0
// Memory of the current device that frees itself, and CUDA's errors as diagnostics (E0511).
#pragma once

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <vector>

#include "kernels/common/refusal.hpp"

namespace tessera::lattice_boltzmann {

struct Free {
  void operator()(void* at) const { cudaFree(at); }
};
using Memory = std::unique_ptr<void, Free>;

inline Expected<void> done(cudaError_t error, std::string const& what) {
  if (error == cudaSuccess) return {};
  return kernels::cuda_failed(error, what);
}

/// What `act()` returns, an Expected, or E0511 if it throws as checked calls of CUDA do (src/gpu/check.hpp).
template <class Act>
auto guarded(Act const& act) -> decltype(act()) {
  try {
    return act();
  } catch (std::exception const& error) {
    return kernels::refusal("E0511", error.what(),
                            "see whether the devices work (nvidia-smi) and whether an earlier kernel failed");
  }
}

inline Expected<Memory> allocate(long long bytes, char const* what) {
  void* at = nullptr;
  if (auto const e = cudaMalloc(&at, static_cast<std::size_t>(bytes)); e != cudaSuccess)
    return kernels::cuda_failed(e, fmt::format("memory for {}, {} bytes", what, bytes));
  return Memory(at);
}

/// Null of nothing.
template <class T>
Expected<Memory> upload(std::vector<T> const& from, char const* what) {
  if (from.empty()) return Memory();
  auto memory = allocate(static_cast<long long>(from.size() * sizeof(T)), what);
  if (!memory) return memory;
  if (auto ok = done(cudaMemcpy(memory->get(), from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice),
                     fmt::format("bringing {} to the device", what));
      !ok)
    return tl::make_unexpected(ok.error());
  return memory;
}

inline Expected<bool> is_captured(cudaStream_t stream) {
  auto status = cudaStreamCaptureStatusNone;
  if (auto ok = done(cudaStreamIsCapturing(stream, &status), "looking at a stream"); !ok)
    return tl::make_unexpected(ok.error());
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace tessera::lattice_boltzmann
