// SPDX-License-Identifier: Apache-2.0
// How long a part of a graph takes, by events that are nodes of it.
#pragma once

#include "check.hpp"

namespace tessera::gpu {

/// Recorded in streams that are being captured; in others, too, so that the same work runs once before.
class GraphTimer {
 public:
  GraphTimer() {
    ok(cudaEventCreate(&begin_));
    ok(cudaEventCreate(&end_));
  }
  ~GraphTimer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  GraphTimer(GraphTimer const&) = delete;
  GraphTimer& operator=(GraphTimer const&) = delete;

  void begin(cudaStream_t stream) const { record(begin_, stream); }
  void end(cudaStream_t stream) const { record(end_, stream); }
  /// Between the two in the launch that has recorded them last, and has ended.
  double us() const {
    float ms = 0;
    ok(cudaEventElapsedTime(&ms, begin_, end_));
    return ms * 1e3;
  }

 private:
  /// An event that a capture records as other streams' work is one of its edges, and has no time.
  static void record(cudaEvent_t event, cudaStream_t stream) {
    auto status = cudaStreamCaptureStatusNone;
    ok(cudaStreamIsCapturing(stream, &status));
    ok(cudaEventRecordWithFlags(
        event, stream,
        status == cudaStreamCaptureStatusNone ? cudaEventRecordDefault : cudaEventRecordExternal));
  }

  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace tessera::gpu
