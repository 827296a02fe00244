// SPDX-License-Identifier: Apache-2.0
// What may be called while a stream of the caller's is being captured.
#pragma once

#include <cuda_runtime_api.h>

namespace tessera::gpu {

/// While it lives, this thread may allocate, load kernels and wait although a capture is under way: they are
/// no part of the graph.
class RelaxedCapture {
 public:
  RelaxedCapture() { changed_ = cudaThreadExchangeStreamCaptureMode(&mode_) == cudaSuccess; }
  ~RelaxedCapture() {
    if (changed_) cudaThreadExchangeStreamCaptureMode(&mode_);
  }
  RelaxedCapture(RelaxedCapture const&) = delete;
  RelaxedCapture& operator=(RelaxedCapture const&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  bool changed_ = false;
};

}  // namespace tessera::gpu
