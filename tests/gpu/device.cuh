// SPDX-License-Identifier: Apache-2.0
// Device memory and checked calls for tests and benchmarks that run on a GPU.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace tessera::gpu {

/// Throws with the line of the call that failed.
inline void ok(cudaError_t status, int line = __builtin_LINE(), char const* file = __builtin_FILE()) {
  if (status != cudaSuccess)
    throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " +
                             cudaGetErrorName(status) + ", " + cudaGetErrorString(status));
}

/// Owns `size` elements of device memory. A byte pattern stands in it from the start, never zeros by chance.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size, int byte = 0xA5) : size_(size) {
    ok(cudaMalloc(&data_, (size > 0 ? size : 1) * sizeof(T)));
    fill(byte);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(DeviceArray const&) = delete;
  DeviceArray& operator=(DeviceArray const&) = delete;

  T* get() const { return data_; }
  std::size_t size() const { return size_; }
  void fill(int byte) { ok(cudaMemset(data_, byte, size_ * sizeof(T))); }
  void upload(std::vector<T> const& from) {
    ok(cudaMemcpy(data_, from.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  std::vector<T> download() const {
    std::vector<T> to(size_);
    ok(cudaMemcpy(to.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return to;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// So many launches, or fewer where TESSERA_GPU_LAUNCHES says so: under compute-sanitizer a launch takes a
/// thousand times as long.
inline int launches(int wanted) {
  char const* const most = std::getenv("TESSERA_GPU_LAUNCHES");
  return most == nullptr ? wanted : std::min(wanted, std::atoi(most));
}

/// Loads a kernel now: with lazy loading the first launch would have to wait for a kernel that spins.
template <class Kernel>
void preload(Kernel* kernel) {
  cudaFuncAttributes attributes;
  ok(cudaFuncGetAttributes(&attributes, kernel));
}

}  // namespace tessera::gpu
