// SPDX-License-Identifier: Apache-2.0
// What may be called while a stream of the caller's is being captured.
#pragma once

#include <cuda_runtime_api.h>

namespace tessera::kernels {

/// While it lives, this thread may allocate and load kernels although a capture is under way: they are no
/// part of the graph.
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

/// At once, in a stream of its own: the caller's may be captured.
inline cudaError_t zero(void* memory, std::size_t bytes) {
  cudaStream_t stream = nullptr;
  cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) return error;
  error = cudaMemsetAsync(memory, 0, bytes, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  cudaStreamDestroy(stream);
  return error;
}

}  // namespace tessera::kernels
