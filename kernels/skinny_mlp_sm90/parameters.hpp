// SPDX-License-Identifier: Apache-2.0
// What a launch tells the kernel, and what a compiled kernel tells the host.
#pragma once

#include <cuda.h>

#include <tessera/sync/wait.cuh>

#include "cut.hpp"

namespace tessera::skinny_sm90 {

struct Parameters {
  CUtensorMap first_weights;
  CUtensorMap second_weights;
  CUtensorMap input;
  CUtensorMap hidden;
  Cut first;
  Cut second;
  void* h = nullptr;
  void* y = nullptr;
  unsigned long long* launches = nullptr;  ///< complete ones of this workspace
  unsigned* semaphores = nullptr;          ///< one for each k-block of the second GEMM
  int tokens = 0;
  int slots = 0;
  int slot_bytes = 0;
  int activation_depth = 0;  ///< k-blocks to a stage of activations; divides both stage_depth
  int activation_stages = 0;
  int activation_bytes = 0;  ///< of one stage
  int activation_rows = 0;   ///< of a k-block in a stage: all tokens, and what rounds them up
  int warpgroup_tokens = 0;  ///< of pairs: a warpgroup's, a multiple of 8
  bool first_whole = true;   ///< the depth is a multiple of 64
  bool second_whole = true;
  bool gated = false;
  int stage = 0;
  DeadlineWatch<> watch;
};

constexpr long long no_semaphore = -1;  ///< in a stall record: a block waits for itself or its cluster

constexpr int most_slots = 40;
constexpr int most_activation_stages = 16;
constexpr int weight_warps = 3;
constexpr int producer_warps = weight_warps + 1;  ///< one for activations
constexpr int barrier_bytes = 1024;

/// One compiled kernel.
struct Instance {
  int token_tile = 0;
  int split = 0;
  int tiles = 0;
  int threads = 0;
  void const* bf16 = nullptr;
  void const* fp16 = nullptr;
};

}  // namespace tessera::skinny_sm90
