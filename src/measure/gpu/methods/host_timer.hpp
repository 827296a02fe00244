// SPDX-License-Identifier: Apache-2.0
// How long work on a stream takes, by the host's clock or by the GPU's events.
#pragma once

#include <chrono>

#include "device.hpp"

namespace tessera::probe {

inline double host_now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// From before `submit()` until the stream is empty: launch and completion are part of it.
template <class Submit>
double host_ns(cudaStream_t stream, Submit submit) {
  ok(cudaStreamSynchronize(stream));
  double const begin = host_now_ns();
  submit();
  ok(cudaStreamSynchronize(stream));
  return host_now_ns() - begin;
}

/// Two events around `submit()`. Resolution: timer.event.resolution.
class EventTimer {
 public:
  EventTimer() {
    ok(cudaEventCreate(&begin_));
    ok(cudaEventCreate(&end_));
  }
  ~EventTimer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  EventTimer(EventTimer const&) = delete;
  EventTimer& operator=(EventTimer const&) = delete;

  template <class Submit>
  double ns(cudaStream_t stream, Submit submit) {
    ok(cudaEventRecord(begin_, stream));
    submit();
    ok(cudaEventRecord(end_, stream));
    ok(cudaEventSynchronize(end_));
    float ms = 0;
    ok(cudaEventElapsedTime(&ms, begin_, end_));
    return ms * 1e6;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace tessera::probe
