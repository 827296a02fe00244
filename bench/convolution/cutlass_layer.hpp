// SPDX-License-Identifier: Apache-2.0
// A convolution by CUTLASS's implicit GEMM for sm_90, with bias, residual and ReLU in its epilogue: a peer in
// one tile shape. It splits no depth, so that a layer of few pixels has few blocks.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cudnn/convolution.hpp"

namespace tessera::bench_convolution {

constexpr char const* k_cutlass_tile = "CUTLASS's 64 pixels x 64 channels x 64";

/// Is it a layer for this kernel: fp16, with bias and ReLU?
bool cutlass_can(cudnn::Problem const& problem);
/// May be captured. cudaErrorInvalidValue where cutlass_can() is false, or CUTLASS refuses the sizes.
cudaError_t cutlass_layer(cudnn::Problem const& problem, cudnn::Buffers const& buffers, cudaStream_t stream);

}  // namespace tessera::bench_convolution
