// SPDX-License-Identifier: Apache-2.0
// Work that has ended when the call returns, in a stream of its own: the caller's may be captured.
#pragma once

#include <cuda_runtime_api.h>

namespace tessera::kernels {

/// `enqueue(stream)` returns CUDA's error.
template <class Function>
cudaError_t at_once(Function const& enqueue) {
  cudaStream_t stream = nullptr;
  cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) return error;
  error = enqueue(stream);
  auto const waited = cudaStreamSynchronize(stream);
  cudaStreamDestroy(stream);
  return error != cudaSuccess ? error : waited;
}

}  // namespace tessera::kernels
