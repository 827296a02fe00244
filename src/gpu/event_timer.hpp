// SPDX-License-Identifier: Apache-2.0
// How long work on a stream takes, by the GPU's events.
#pragma once

#include "check.hpp"

namespace tessera::gpu {

/// Two events around `submit()`. Resolution: the probe's timer.event.resolution.
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

}  // namespace tessera::gpu
