// SPDX-License-Identifier: Apache-2.0
// Attention of prompts as a problem: sizes, where rows lie, who sees whom, and what is refused. No CUDA.
#pragma once

#include <tessera/diagnostic.hpp>

#include "sight.hpp"
#include "src/gpu/element_type.hpp"

namespace tessera::attention_sm90 {

using gpu::ElementType;

/// Where heads lie in memory, in elements. 0: as in a matrix [rows][heads][head_size] without gaps.
struct Strides {
  long long row = 0;   ///< from a token to the next
  long long head = 0;  ///< from a head to the next; of q and out within the heads that share a key head
  /// q and out only: from the first head that has a key head to the first one that has the next. 0: heads
  /// follow one another.
  long long group = 0;
};

/// Sequences lie in the rows of q and out (queries) and of k and v (keys), one behind the other or at steps.
/// The last query of a sequence stands at its last key: query i of n sees keys up to i + (keys - n) where
/// `causal`. What a query sees none of gives zeros. Pointers are device memory, read when the launch runs.
struct Problem {
  ElementType type = ElementType::bf16;
  int sequences = 1;
  int heads = 0;
  int key_heads = 0;  ///< 0: as many as heads. Head h has key head h / (heads / key_heads)
  int head_size = 0;  ///< 64, 80, 96, 128 or 256

  int query_rows = 0;       ///< that q and out have; nothing behind them is read or written
  int key_rows = 0;         ///< that k and v have, likewise; 0: query_rows
  int longest_queries = 0;  ///< no sequence has more, or its last ones are not computed; 0: query_rows
  /// Where there are no offsets: rows from where a sequence begins to where the next does, the last one
  /// ending with the array. 0: they lie one behind the other. A tensor [sequence][head][token][head_size] has
  /// heads * tokens.
  int query_step = 0;
  int key_step = 0;
  /// [sequences + 1]: where the queries of each sequence begin, and where the last one's end. Null: all have
  /// as many (rows_each()).
  int const* query_offsets = nullptr;
  /// [sequences + 1], of keys.
  int const* key_offsets = nullptr;
  /// [sequences]: keys that are there, from each one's offset on, and no others are looked at. Null: all up
  /// to the next offset. With it key_offsets need not be in order: a cache [sequence][key head][capacity] has
  /// key_heads * capacity rows a sequence, capacity * head_size elements from head to head.
  int const* key_lengths = nullptr;

  bool causal = false;
  int window = 0;   ///< > 0: a query sees the last `window` keys up to its own, which is causal; 0: no window
  float scale = 0;  ///< of scores; 0: 1 / sqrt(head_size)

  Strides q, k, v, out;
  /// k and v are a cache of kernels/decode: in a position's row 16 bytes of number c lie at c xor (position
  /// modulo 8). For head sizes 64, 128 and 256.
  bool turned_keys = false;

  /// Of each weight after the softmax, the chance to be dropped; the others are divided by 1 - drop. Which
  /// ones is a function of seed, sequence, head, query and key (dropout.hpp). In [0, 1). bf16, heads up to
  /// 128.
  float drop = 0;
  unsigned long long seed = 0;
};

/// The problem with all zeros that stand for something replaced by it.
Problem completed(Problem problem);

/// E0590 with what is wrong and what can be done. Addresses are looked at by the launch.
Expected<void> check(Problem const& problem);

/// The size for which a kernel is compiled that takes this one: the same, and 128 for heads of 80 and 96 with
/// dropout. 0: there is none.
int compiled_head_size(int head_size, bool drops = false);

/// What a block of a plan computes: queries of one head, looking at keys in blocks of so many.
struct TileSize {
  int queries = 0, keys = 0;
};
TileSize tile_size(int head_size);

/// Of a launch, in tiles of so many queries; 0: of those of tile_size().
Tiles tiles_of(Problem const& problem, int tile_queries = 0);

}  // namespace tessera::attention_sm90
