// SPDX-License-Identifier: Apache-2.0
// Prompts are read many tokens at once: which tokens a step reads, and how attention over them is cut.
// Arithmetic, without a GPU.
//
// A step has rows, as a step that generates has sequences: products see no difference. Consecutive tokens of
// a sequence are a run. A token attends to what stood in the cache before the step, which no stage of the
// launch writes and is loaded early, and to its run's tokens up to itself, whose keys and values are taken
// from where the product before attention has put them, not from the cache. So attention waits for that
// product alone, as it does in a step that generates; that the cache is written meanwhile, at positions that
// nobody reads before the next launch, needs no order.
#pragma once

#include <tessera/sync/config.cuh>
#include <vector>

#include "kernels/decode/attention.hpp"

namespace tessera::decode {

constexpr int k_most_prompt_rows = 64;    ///< of a step: columns of the widest product
constexpr int k_most_prompt_items = 64;   ///< a step's table is an argument of a kernel: 4 KB at most
constexpr int k_prompt_queries = 16 * 8;  ///< of a tile of attention: 16 rows for each warp that computes

/// Tokens of a sequence, of which step row `row + i` reads the one at `position + i`.
struct PromptRun {
  int sequence = 0, row = 0, position = 0, tokens = 0;
};
using PromptStep = std::vector<PromptRun>;

/// Steps of up to `rows` rows that read the positions `unread` of each sequence: one sequence after the
/// other, so that there are few runs.
std::vector<PromptStep> prompt_steps(std::vector<Positions> const& unread, int rows);

/// What a row of a step reads. Sequence -1: nothing.
struct PromptRow {
  int sequence = -1, position = 0;
};

/// A tile of attention, for each key head: tokens `begin` to `end` of a run, and one part of the positions
/// that the run has behind it. Items of the same tokens stand one behind the other; the last one also attends
/// to the run's own tokens, and stores keys and values of its tokens to the cache.
struct PromptItem {
  int sequence = 0;
  int row = 0;     ///< of the run's first token
  int cached = 0;  ///< its position
  int begin = 0, end = 0;
  Positions past;
  int parts = 1;  ///< items of the same tokens
  int first = 0;  ///< the first one of them

  TESSERA_HOST_DEVICE constexpr bool newest(int item) const { return item - first == parts - 1; }
};

/// A step, for the GPU.
struct PromptTable {
  PromptRow rows[k_most_prompt_rows];
  PromptItem items[k_most_prompt_items];
};
static_assert(sizeof(PromptTable) <= 3072, "an argument of a kernel beside others");

/// Tokens of a run to an item.
TESSERA_HOST_DEVICE constexpr int prompt_tokens_of_item(int group) { return k_prompt_queries / group; }
/// Items that no step of so many rows and sequences exceeds, even if no part of the positions is cut.
int most_prompt_pieces(int group, int rows, int batch);
/// Items for each key head: so many that all of `blocks` have a tile, and enough for every step.
int prompt_items(Model const& model, int rows, int batch, int blocks);
/// Where items are left, positions are cut into parts of `least` or more. Precondition: as many items as
/// most_prompt_pieces() at least. `window`: Model::window, or 0 where some layers see all; what no token of
/// an item sees is left out of its positions, but for a block's beginning.
PromptTable prompt_table(PromptStep const& step, int group, int items, int least, int window = 0);

/// What a launch tells the operation. As AttentionArguments, unless said.
struct PromptArguments {
  void const* qkv = nullptr;  ///< [row][key head][its query heads, key, value][head_size]
  void* output = nullptr;     ///< [row][query head][head_size]
  void* keys = nullptr;
  void* values = nullptr;
  long long layer_elements = 0;
  Turn const* turns = nullptr;
  PromptItem const* items = nullptr;  ///< written before the launch
  /// Of each tile and query: sums of values, and behind those of all tiles the largest score and the sum of
  /// weights.
  float* parts = nullptr;
  unsigned* arrived = nullptr;  ///< of each tile; zeroed before the first launch
  float scale = 1;
  int layers = 1;
  int kv_heads = 1;
  int group = 1;
  int capacity = 0;
  int slot_positions = 0;
  int qkv_tiles = 0;
  int tiles = 0;  ///< item by item, of each all key heads
  void const* head_gains = nullptr;
  float norm_epsilon = 0;
  int window = 0;
  int window_from = 0;
  CachePages pages;

  TESSERA_HOST_DEVICE constexpr int row(int head_size) const { return kv_heads * (group + 2) * head_size; }
};
/// Floats of PromptArguments::parts.
constexpr std::size_t prompt_parts(int tiles, int head_size) {
  return static_cast<std::size_t>(tiles) * k_prompt_queries * static_cast<std::size_t>(head_size + 2);
}
/// Of shared memory, for keys and values of a run.
constexpr int prompt_scratch_bytes(int head_size) { return 4 * k_most_prompt_rows * head_size; }

}  // namespace tessera::decode
