// SPDX-License-Identifier: Apache-2.0
// Product of few rows (1 to 64) and many weights, for a step that generates: its weights are on their way
// before the launches before it are complete, and blocks of a cluster divide the depth. For sm_90a.
#pragma once

#include <cuda_runtime_api.h>

#include "sizes.hpp"

namespace tessera::skinny_gemm {

/// RMSNorm of the input's rows, done to the sums: these are multiplied by 1 / sqrt(mean square + epsilon).
struct InputNorm {
  /// [rows][depth / k_squares_block]: sums of squares of so many numbers of a row; null: no norm.
  float const* squares = nullptr;
  float epsilon = 0;
};

/// In device memory, 16-byte aligned.
struct Operands {
  void const* input = nullptr;    ///< [rows][depth] of bf16
  void const* weights = nullptr;  ///< [columns][depth] of bf16, written long before this launch
  void* to = nullptr;             ///< [rows][columns]; gated: [rows][columns / 2]
  InputNorm norm = {};
  float const* shift = nullptr;  ///< [columns], added to sums; null: nothing. Not of a gated product
  /// Of an added product, for the norm of what it leaves in `to`: the same rounded to bf16, and sums of
  /// squares, [rows][columns / k_squares_block, rounded up]. Both, or null.
  void* rounded = nullptr;
  float* squares = nullptr;
  float const* from = nullptr;  ///< of an added product: what sums are added to; null: what is in `to`
};

/// Do the operands go together with each other and with the product, and are they aligned?
bool takes(Problem const& problem, Operands const& operands);

/// Loads the kernels, and lets them have the shared memory that they need: not while a stream is captured.
cudaError_t load();
/// to = input * weights^T, or what `result` says. `early`: a programmatic launch. Weights are loaded at once,
/// all else is read and written when the launches before are complete, and only then the launch behind it may
/// begin.
/// cudaErrorInvalidValue: sizes or a cut that no kernel has, or operands that it does not take.
cudaError_t launch(Problem const& problem, Config const& config, Operands const& operands,
                   cudaStream_t stream, bool early = true);

}  // namespace tessera::skinny_gemm
