// SPDX-License-Identifier: Apache-2.0
// Device memory with an owner, and CUDA's errors as diagnostics.
#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <memory>
#include <string>
#include <tessera/diagnostic.hpp>

#include "kernels/common/refusal.hpp"

namespace tessera::decode {

/// Elements of so many rows of so many.
inline std::size_t times(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

inline Expected<void> check_call(cudaError_t error, std::string const& call) {
  if (error == cudaSuccess) return {};
  return kernels::cuda_failed(error, call);
}

using Memory = std::shared_ptr<unsigned char>;

/// Zeroed, on the stream.
inline Expected<Memory> zeroed_memory(std::size_t bytes, cudaStream_t stream) {
  void* at = nullptr;
  if (auto ok = check_call(cudaMalloc(&at, bytes > 0 ? bytes : 1), fmt::format("cudaMalloc({})", bytes)); !ok)
    return tl::make_unexpected(ok.error());
  Memory memory(static_cast<unsigned char*>(at), [](unsigned char* p) { (void)cudaFree(p); });
  if (auto ok = check_call(cudaMemsetAsync(at, 0, bytes, stream), "cudaMemsetAsync"); !ok)
    return tl::make_unexpected(ok.error());
  return memory;
}

/// Hands out pieces of one allocation, 256-byte aligned. Without memory it only adds up.
class Pieces {
 public:
  explicit Pieces(unsigned char* base = nullptr) : base_(base) {}
  template <class T = void>
  T* take(std::size_t bytes) {
    auto const at = used_;
    used_ += (bytes + 255) / 256 * 256;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + at);
  }
  std::size_t used() const { return used_; }

 private:
  unsigned char* base_;
  std::size_t used_ = 0;
};

}  // namespace tessera::decode
