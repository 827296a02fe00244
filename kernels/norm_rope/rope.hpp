// SPDX-License-Identifier: Apache-2.0
// Queries and keys turned by their positions (rotary embedding), where the product before attention has put
// them. Angles come from a table, so scaled frequencies (Llama 3's, long ropes) cost nothing here.
#pragma once

#include <cuda_runtime_api.h>

#include "start.hpp"

namespace tessera::kernels {

/// Device memory, 16-byte aligned; heads are bf16. In place.
struct Heads {
  void* qkv = nullptr;                ///< [row][key head][its query heads, key, value][head_size]
  float const* shifts = nullptr;      ///< added to a row first, values included, in fp32; null: nothing
  void const* query_gains = nullptr;  ///< [head_size] of bf16: RMSNorm of each query, and of each key, before
  void const* key_gains = nullptr;    ///< they are turned; null: neither
  float norm_epsilon = 0;
  float2 const* turns = nullptr;  ///< [position][head_size / 2]: cosine and sine; null: nothing is turned
  int rows = 0;
  int key_heads = 0;
  int group = 1;      ///< query heads to a key head
  int head_size = 0;  ///< 64, 80, 96, 128 or 256
  /// Pairs are elements 2 * i and 2 * i + 1 (GPT-J's form); else i and i + head_size / 2 (Llama's).
  bool interleaved = false;
};

/// `positions`: of each row, in device memory; null: row i is at position i modulo `length`.
/// cudaErrorInvalidValue: sizes that it is not for.
cudaError_t turn_heads(Heads const& heads, int const* positions, int length, cudaStream_t stream,
                       Start const& start = {});

constexpr int k_rope_threads = 256;  ///< of a block
/// The kernel that turn_heads() launches for heads of this size; null: there is none.
void const* turn_kernel(int head_size);

}  // namespace tessera::kernels
