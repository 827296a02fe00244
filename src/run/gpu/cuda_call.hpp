// SPDX-License-Identifier: Apache-2.0
// CUDA's errors as diagnostics.
#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string>

#include "tessera/diagnostic.hpp"

namespace tessera::run {

/// E0511: a CUDA call failed. `state` is what matters about it, or empty.
inline Expected<void> check_call(cudaError_t error, std::string const& call, std::string const& state = "",
                                 SourceLine const& where = {}) {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();
  Diagnostic d{
      "E0511", Severity::error,
      where,   fmt::format("{} failed: {} ({})", call, cudaGetErrorName(error), cudaGetErrorString(error)),
      {},      "see whether the device works (nvidia-smi) and whether an earlier kernel failed"};
  if (!state.empty()) d.notes.push_back(state);
  return refuse(std::move(d));
}

/// Memory on the device, freed with its owner.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory const&) = delete;
  DeviceMemory& operator=(DeviceMemory const&) = delete;
  ~DeviceMemory() {
    if (!leaked_) (void)cudaFree(address_);
  }
  /// A kernel that never ends may still use it, and cudaFree would wait for that kernel.
  void leak() { leaked_ = true; }

  Expected<void> allocate(std::size_t bytes, std::string const& what) {
    bytes_ = bytes;
    return check_call(cudaMalloc(&address_, bytes == 0 ? 1 : bytes), fmt::format("cudaMalloc({})", bytes),
                      "for " + what);
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(address_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
  bool leaked_ = false;
};

}  // namespace tessera::run
