// SPDX-License-Identifier: Apache-2.0
// Launches that are captured once, enqueued again and again without the host's time for each, and timed.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>
#include <utility>

#include "kernels/decode/device_memory.hpp"

namespace tessera::decode {

class Captured {
 public:
  /// `work(stream)`, an Expected<void>, enqueues them in a stream of its own: a caller's may be the default
  /// one, which cannot be captured. E0511, or the error of `work`.
  template <class Work>
  static Expected<Captured> of(Work const& work) {
    Captured result;
    cudaStream_t stream = nullptr;
    if (auto ok = check_call(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
        !ok)
      return tl::make_unexpected(ok.error());
    auto done = check_call(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                           "cudaStreamBeginCapture");
    if (done) {
      done = work(stream);
      cudaGraph_t graph = nullptr;
      auto error = cudaStreamEndCapture(stream, &graph);
      if (done && error == cudaSuccess) error = cudaGraphInstantiate(&result.graph_, graph, 0);
      if (graph != nullptr) (void)cudaGraphDestroy(graph);
      if (done) done = check_call(error, "capturing launches");
    }
    (void)cudaStreamDestroy(stream);
    if (!done) return tl::make_unexpected(done.error());
    return result;
  }
  Captured(Captured&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
  Captured& operator=(Captured&& other) noexcept {
    std::swap(graph_, other.graph_);
    return *this;
  }
  ~Captured() {
    if (graph_ != nullptr) (void)cudaGraphExecDestroy(graph_);
  }

  cudaError_t launch(cudaStream_t stream) const { return cudaGraphLaunch(graph_, stream); }

 private:
  Captured() = default;
  cudaGraphExec_t graph_ = nullptr;
};

/// Two events of a stream, which time what lies between them.
class Clock {
 public:
  Clock() {
    for (auto* const one : {&begin_, &end_})
      if (error_ == cudaSuccess) error_ = cudaEventCreate(one);
  }
  ~Clock() {
    for (auto const one : {begin_, end_})
      if (one != nullptr) (void)cudaEventDestroy(one);
  }
  Clock(Clock const&) = delete;
  Clock& operator=(Clock const&) = delete;

  /// Of one replay, for which the host waits. Nothing: an error, which stays in error().
  std::optional<float> milliseconds(cudaStream_t stream, Captured const& launches) {
    float result = 0;
    keep(cudaEventRecord(begin_, stream));
    if (error_ == cudaSuccess) keep(launches.launch(stream));
    if (error_ == cudaSuccess) keep(cudaEventRecord(end_, stream));
    if (error_ == cudaSuccess) keep(cudaEventSynchronize(end_));
    if (error_ == cudaSuccess) keep(cudaEventElapsedTime(&result, begin_, end_));
    return error_ == cudaSuccess ? std::optional(result) : std::nullopt;
  }
  cudaError_t error() const { return error_; }

 private:
  void keep(cudaError_t error) {
    if (error_ == cudaSuccess) error_ = error;
  }
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace tessera::decode
