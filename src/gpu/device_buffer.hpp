// SPDX-License-Identifier: Apache-2.0
// Device memory that frees itself.
#pragma once

#include <vector>

#include "check.hpp"

namespace tessera::gpu {

/// For memory that should not look right before it is written.
inline constexpr int k_poison = 0xA5;

/// Owns `size` elements on the current device. A byte pattern stands in them from the start.
template <class T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t size, int byte = 0) : size_(size) {
    ok(cudaMalloc(&data_, (size > 0 ? size : 1) * sizeof(T)));
    fill(byte);
    ok(cudaDeviceSynchronize());
  }
  ~DeviceBuffer() { cudaFree(data_); }
  DeviceBuffer(DeviceBuffer const&) = delete;
  DeviceBuffer& operator=(DeviceBuffer const&) = delete;

  T* get() const { return data_; }
  std::size_t size() const { return size_; }
  /// On the legacy default stream.
  void fill(int byte) { ok(cudaMemset(data_, byte, size_ * sizeof(T))); }
  void fill(cudaStream_t stream, int byte) { ok(cudaMemsetAsync(data_, byte, size_ * sizeof(T), stream)); }
  void upload(std::vector<T> const& from) {
    ok(cudaMemcpy(data_, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  /// Waits for the whole device.
  std::vector<T> download() const {
    ok(cudaDeviceSynchronize());
    std::vector<T> to(size_);
    ok(cudaMemcpy(to.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return to;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tessera::gpu
