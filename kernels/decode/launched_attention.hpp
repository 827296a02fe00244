// SPDX-License-Identifier: Apache-2.0
// Attention of new tokens over cached ones as a launch of its own, behind the one that has turned queries and
// stored the new keys and values to the cache (take_heads()). A block has a part of the positions of a
// sequence and key head; who ends last of these puts the parts together.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/decode/pass_kernels.hpp"

namespace tessera::decode {

/// One new token of each sequence. Device memory.
struct LaunchedAttention {
  void const* qkv = nullptr;  ///< [sequence][key head][its query heads, turned, key, value][head_size]
  void* output = nullptr;     ///< [sequence][query head][head_size]
  LayerCache cache;
  int const* cached = nullptr;  ///< of each sequence: tokens before the new one, below the cache's capacity
  /// Of each part and query head: sums of values, [head_size], and behind those of all parts the largest
  /// score and the sum of weights. Not looked at where splits is 1.
  float* parts = nullptr;
  unsigned* arrived = nullptr;  ///< of each sequence and key head; zeroed before the first launch
  float scale = 1;              ///< score_scale()
  int batch = 1;
  int kv_heads = 1;
  int group = 1;      ///< query heads to a key head, 1 to 8
  int head_size = 0;  ///< 64, 96 or 128
  int splits = 1;     ///< parts of a sequence's positions, a block each
  int window = 0;     ///< keys that a token sees, its own among them; 0: all

  TESSERA_HOST_DEVICE constexpr int tiles() const { return batch * kv_heads * splits; }
};

/// Allows the shared memory that it takes, and loads the kernel: not while a stream is captured.
cudaError_t load_launched_attention(int head_size);
/// The launch is programmatic. The kernel before has to be take_heads(): counts of tokens, and keys and
/// values of earlier ones, are read while it runs.
cudaError_t attend(LaunchedAttention const& problem, cudaStream_t stream);

}  // namespace tessera::decode
