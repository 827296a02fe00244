// SPDX-License-Identifier: Apache-2.0
// The compiled kernels, and what they are told.
#pragma once

#include <cuda.h>

#include "skinny_gemm.hpp"

namespace tessera::skinny_gemm {

/// Threads that find what sums of each row are multiplied by, and all of a block beside those that multiply:
/// these, a warp that loads weights, and one that loads the input.
constexpr int k_norm_threads = 128, k_other_threads = 64 + k_norm_threads;

struct Parameters {
  CUtensorMap weights, input;
  void* to = nullptr;
  float const* from = nullptr;
  int rows = 0, columns = 0;
  Result result = Result::bf16;
  int tile = 64;  ///< columns of a cluster
  int split = 1;
  int steps = 0;  ///< stages that a block multiplies
  int stages = 0, stage_depth = 0;
  int in_flight = 0;                                    ///< stages whose weights are on their way at once
  int stage_bytes = 0;                                  ///< weights, and the input behind them
  int weights_bytes = 0;                                ///< of a stage
  int box_rows = 0;                                     ///< of the input in a stage: rows, rounded up to 8
  int barriers_at = 0, scales_at = 0, received_at = 0;  ///< bytes from the beginning of shared memory
  int depth = 0;
  float of_depth = 0;  ///< 1 / depth
  InputNorm norm;
  float const* shift = nullptr;
  void* rounded = nullptr;
  float* squares = nullptr;
};

/// For 1 and 2 warpgroups.
struct Instance {
  void const* kernels[2];
};
Instance instance_16();
Instance instance_32();
Instance instance_64();

}  // namespace tessera::skinny_gemm
