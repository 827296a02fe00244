// SPDX-License-Identifier: Apache-2.0
// Attention of new tokens over cached ones as a launch of its own, behind the product that has made queries,
// keys and values. A block has a part of the positions of a sequence and key head. The block that ends last
// puts parts together in device memory, or the blocks of a cluster do in theirs.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/decode/pass_kernels.hpp"
#include "kernels/decode/rotation_table.hpp"

namespace tessera::decode {

/// Where a sequence's new queries, keys and values lie, in elements from the beginning of its row.
struct NewHeadsAt {
  int row = 0;      ///< from a sequence to the next
  int queries = 0;  ///< from the query heads of a key head to those of the next
  int keys = 0;     ///< from a key to that of the next head, and likewise of values
  int key = 0;      ///< the first key
  int value = 0;    ///< the first value
};
/// [key head][its query heads, key, value][head_size]
constexpr NewHeadsAt heads_together(int kv_heads, int group, int head_size) {
  int const each = (group + 2) * head_size;
  return {kv_heads * each, each, each, group * head_size, (group + 1) * head_size};
}
/// All queries, then all keys, then all values.
constexpr NewHeadsAt heads_apart(int kv_heads, int group, int head_size) {
  int const queries = kv_heads * group * head_size, keys = kv_heads * head_size;
  return {queries + 2 * keys, group * head_size, head_size, queries, queries + keys};
}

/// One new token of each sequence. Device memory.
struct LaunchedAttention {
  void const* qkv = nullptr;  ///< [sequence] rows, in which heads lie as `at` says
  NewHeadsAt at;
  float const* shifts = nullptr;      ///< added to a sequence's row of these, in fp32; null: nothing
  void const* query_gains = nullptr;  ///< [head_size]: RMSNorm of each query, and of each key, before they
  void const* key_gains = nullptr;    ///< are turned; null: neither
  float norm_epsilon = 0;
  Turn const* turns = nullptr;  ///< [position][head_size / 2]; null: heads are as they are to be
  void* output = nullptr;       ///< [sequence][query head][head_size]
  LayerCache cache;             ///< new keys, turned, and new values are stored to it
  /// Of each sequence: tokens before the new one. Where a cache without pages has no room behind them, it is
  /// neither read nor written, and results of the sequence are no numbers.
  int const* cached = nullptr;
  /// Of each part and query head: sums of values, [head_size], and behind those of all parts the largest
  /// score and the sum of weights. Not looked at where splits is 1, or in_clusters.
  float* parts = nullptr;
  unsigned* arrived = nullptr;  ///< of each sequence and key head; zeroed before the first launch
  float scale = 1;              ///< score_scale()
  int batch = 1;
  int kv_heads = 1;
  int group = 1;      ///< query heads to a key head, 1 to 8
  int head_size = 0;  ///< 64, 96 or 128
  int splits = 1;     ///< parts of a sequence's positions, a block each
  int window = 0;     ///< keys that a token sees, its own among them; 0: all
  int sms = 0;        ///< of the GPU: where each tile has one to itself, a block takes all of its memory
  bool in_clusters = false;  ///< a cluster puts the parts together: where clusters_fit()

  TESSERA_HOST_DEVICE constexpr int tiles() const { return batch * kv_heads * splits; }
  bool paged() const { return cache.pages.table != nullptr; }
};

/// Allows the shared memory that it takes, and loads the kernels for a cache with or without pages: not while
/// a stream is captured.
cudaError_t load_launched_attention(int head_size, bool paged);
/// Is a cluster to put the parts together? Where parts_share_cluster(), and all clusters have room at once on
/// this GPU, or on the SMs of it that the current context has.
bool clusters_fit(LaunchedAttention const& problem);
/// `early`: the launch is programmatic. Counts of tokens, and keys and values of earlier ones, are read while
/// the kernel before runs: what wrote these has to be complete when that one lets this begin, as it is behind
/// a product of ours, and behind any other with a norm before it that triggers late (norm_rows()).
cudaError_t attend(LaunchedAttention const& problem, cudaStream_t stream, bool early = true);

}  // namespace tessera::decode
