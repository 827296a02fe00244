// SPDX-License-Identifier: Apache-2.0
// Device memory for the tests: one random input, the outputs, and the reference to compare them with.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "run_gpu/vector_chain.hpp"

namespace tessera::vector_chain {

struct DeviceFree {
  void operator()(void* p) const { cudaFree(p); }
};
template <class T>
using DeviceArray = std::unique_ptr<T, DeviceFree>;

template <class T>
DeviceArray<T> device_array(std::size_t count) {
  void* p = nullptr;
  EXPECT_EQ(cudaMalloc(&p, count * sizeof(T)), cudaSuccess);
  return DeviceArray<T>(static_cast<T*>(p));
}
template <class T>
DeviceArray<T> device_copy(std::vector<T> const& values) {
  auto result = device_array<T>(values.size());
  EXPECT_EQ(cudaMemcpy(result.get(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
            cudaSuccess);
  return result;
}

class DeviceData {
 public:
  DeviceData(Pipeline const& pipeline, unsigned seed) {
    count_ = static_cast<std::size_t>(pipeline.stages[0].tiles()) * k_width;
    std::vector<std::uint32_t> x(count_);
    std::mt19937 random(seed);
    for (auto& value : x) value = random();
    x_ = device_copy(x);
    for (auto const& expected : reference(pipeline, x)) {
      expected_.push_back(device_copy(expected));
      out_.push_back(device_array<std::uint32_t>(count_));
    }
    mismatches_ = device_array<unsigned long long>(1);
    cudaMemset(mismatches_.get(), 0, sizeof(unsigned long long));
    cudaDeviceSynchronize();
  }

  Buffers buffers() const {
    Buffers b;
    b.x = x_.get();
    for (std::size_t s = 0; s < out_.size(); ++s) b.out[s] = out_[s].get();
    return b;
  }
  void poison(cudaStream_t stream) const {
    for (auto const& out : out_) cudaMemsetAsync(out.get(), 0xA5, count_ * sizeof(std::uint32_t), stream);
  }
  void compare(cudaStream_t stream) const {
    for (std::size_t s = 0; s < out_.size(); ++s)
      vector_chain::compare(out_[s].get(), expected_[s].get(), count_, mismatches_.get(), stream);
  }
  /// Of all comparisons so far. Synchronizes the device.
  unsigned long long mismatches() const {
    unsigned long long result = ~0ULL;
    cudaDeviceSynchronize();
    EXPECT_EQ(cudaMemcpy(&result, mismatches_.get(), sizeof result, cudaMemcpyDeviceToHost), cudaSuccess);
    return result;
  }

 private:
  std::size_t count_ = 0;
  DeviceArray<std::uint32_t> x_;
  std::vector<DeviceArray<std::uint32_t>> out_, expected_;
  DeviceArray<unsigned long long> mismatches_;
};

struct Stream {
  cudaStream_t stream = nullptr;
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess); }
  Stream(Stream const&) = delete;
  Stream& operator=(Stream const&) = delete;
  ~Stream() { cudaStreamDestroy(stream); }
  operator cudaStream_t() const { return stream; }
};

}  // namespace tessera::vector_chain
