// SPDX-License-Identifier: Apache-2.0
// Attention of one new token of each sequence over the cached ones: what a launch tells the operation.
#pragma once

#include <cmath>
#include <tessera/sync/data_token.cuh>

#include "kernels/decode/cache.hpp"
#include "kernels/decode/rotation_table.hpp"
#include "kernels/few_tokens/tile_times.hpp"

namespace tessera::decode {

/// Of scores, for powers of two: log2(e) / sqrt(head_size).
inline float score_scale(int head_size) {
  return static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(head_size)));
}

/// A tile is a part of the positions of one sequence and key head, for all query heads that share it. Its
/// last part also turns the new key, stores it and the new value to the cache, and attends to them. Behind
/// semaphores who comes last of the parts of a sequence and key head puts them together, in the order of
/// positions.
struct AttentionArguments {
  /// [sequence][key head][its query heads, key, value][head_size]: what the product writes.
  void const* qkv = nullptr;
  void* output = nullptr;  ///< [sequence][query head][head_size]
  void* keys = nullptr;    ///< of layer 0; cache.hpp says how they lie, in pages too
  void* values = nullptr;
  long long layer_elements = 0;  ///< from layer to layer; iteration n of a launch is layer n modulo `layers`
  Turn const* turns = nullptr;   ///< [capacity][head_size / 2]
  int const* cached = nullptr;   ///< of each sequence: tokens before the new one, below `capacity`
  /// Of each tile and query head: sums of values, [head_size], and behind those of all tiles the largest
  /// score and the sum of weights. Null where splits is 1.
  float* parts = nullptr;
  /// What comes and goes as words that carry the iteration (token_words.cuh), for kernels with words.
  unsigned const* qkv_words = nullptr;
  unsigned* output_words = nullptr;
  /// Of each tile part_words_of(): sums of values, and of each query head the largest score and
  /// the sum of weights. Parts are put together by all blocks that have one, a share of the results each,
  /// which wait for one another: no block may have two tiles of the stage.
  Packet<1>* part_words = nullptr;
  unsigned* arrived = nullptr;             ///< of each sequence and key head; zeroed before the first launch
  few_tokens::TileTimes* times = nullptr;  ///< [iteration of a launch][tile]; null: nobody measures
  float scale = 1;                         ///< score_scale()
  int layers = 1;
  int batch = 1;
  int kv_heads = 1;
  int group = 1;  ///< query heads to a key head, 1 to 8
  int capacity = 0;
  int splits = 1;
  int slot_positions = 0;  ///< positions_of_slot()
  int qkv_tiles = 0;       ///< into which the stage that writes qkv cuts a sequence's row; 0: none writes it
  /// Of RMSNorm of each head's queries and keys, [layer][of queries, of keys][head_size]; null: there is
  /// none. Kernels with extras alone read it.
  void const* head_gains = nullptr;
  float norm_epsilon = 0;
  int window = 0;       ///< Model::window; read by kernels with extras alone
  int window_from = 0;  ///< likewise, the first layer with it
  CachePages pages;     ///< likewise

  TESSERA_HOST_DEVICE constexpr int tiles() const { return batch * kv_heads * splits; }
  /// Elements of qkv of a sequence.
  TESSERA_HOST_DEVICE constexpr int row(int head_size) const { return kv_heads * (group + 2) * head_size; }
};

}  // namespace tessera::decode
