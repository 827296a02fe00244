// SPDX-License-Identifier: Apache-2.0
// Norms of rows: RMSNorm, and LayerNorm.
#pragma once

#include <cuda_runtime_api.h>

#include "start.hpp"

namespace tessera::kernels {

/// Columns that a row may have: a block holds it in registers.
constexpr int k_most_norm_columns = 16384;

/// y = (x - mean) / sqrt(mean square + epsilon) * gains + biases for each row, in fp32 and rounded to bf16
/// once. Device memory, 16-byte aligned.
struct Norm {
  float* x = nullptr;            ///< [rows][columns]
  void* y = nullptr;             ///< [rows][columns] of bf16
  float const* shift = nullptr;  ///< [columns], added to each row of x first, and stored there; null: nothing
  void const* gains = nullptr;   ///< [columns] of bf16; null: 1
  void const* biases = nullptr;  ///< [columns] of bf16; null: 0
  int rows = 0;
  int columns = 0;  ///< a multiple of 4
  float epsilon = 1e-5f;
  bool centered = false;  ///< LayerNorm; else RMSNorm, which subtracts no mean
};

/// `triggers_late`: the launch behind it begins when all launches before this one are complete, so that it
/// may read what they wrote, and so may one behind that, whenever that begins. cudaErrorInvalidValue: sizes
/// that it is not for.
cudaError_t norm(Norm const& problem, cudaStream_t stream, Start const& start = {},
                 bool triggers_late = false);

constexpr int k_norm_threads = 256;  ///< of a block, which has a row
/// The kernel that norm() launches for rows of so many columns.
void const* norm_kernel(int columns);

}  // namespace tessera::kernels
