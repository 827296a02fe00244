// SPDX-License-Identifier: Apache-2.0
// Who sees whom, in numbers of a sequence: arithmetic of the host and of the GPU.
#pragma once

#include <tessera/sync/config.cuh>

namespace tessera::attention_sm90 {

/// A sequence as a launch finds it.
struct Sequence {
  int first_query = 0, queries = 0;  ///< rows of q
  int first_key = 0, keys = 0;       ///< rows of k
};

/// How sequences of one length lie in the rows of an array. `step`: from where one begins to where the next
/// does, the last one ending with the array; 0: they lie one behind the other.
TESSERA_HOST_DEVICE constexpr int step_of(int rows, int sequences, int step) {
  return step > 0 ? step : rows / sequences;
}
TESSERA_HOST_DEVICE constexpr int rows_each(int rows, int sequences, int step) {
  if (step <= 0) return rows / sequences;
  long long const before = static_cast<long long>(sequences - 1) * step;
  return before < rows ? static_cast<int>(rows - before) : 0;  // 0: the last one would begin behind the array
}

struct KeyRange {
  int begin = 0, end = 0;
  TESSERA_HOST_DEVICE constexpr bool empty() const { return end <= begin; }
};

/// What a mask lets queries see.
struct Sight {
  bool causal = false;
  int window = 0;

  /// Keys that queries `first` to `last` of a sequence see, some of them.
  TESSERA_HOST_DEVICE constexpr KeyRange of(Sequence const& s, int first, int last) const {
    int const shift = s.keys - s.queries;
    KeyRange range{0, s.keys};
    if (causal && last + shift + 1 < range.end) range.end = last + shift + 1;
    if (window > 0 && first + shift + 1 - window > 0) range.begin = first + shift + 1 - window;
    return range;
  }
  TESSERA_HOST_DEVICE constexpr KeyRange of(Sequence const& s, int query) const {
    return of(s, query, query);
  }
  /// Do all of them see all keys of a range?
  TESSERA_HOST_DEVICE constexpr bool all(Sequence const& s, int first, int last, KeyRange const& keys) const {
    return keys.begin >= of(s, last).begin && keys.end <= of(s, first).end;
  }
};

/// A tile's place among the tiles of a launch.
struct TilePlace {
  int head = 0, query_block = 0, sequence = 0;
};
/// Heads, blocks of queries of a sequence, sequences.
struct Tiles {
  int heads = 0, query_blocks = 0, sequences = 0;

  TESSERA_HOST_DEVICE constexpr int count() const { return heads * query_blocks * sequences; }
  /// Of the grid of a stage: heads first, then the blocks of all sequences.
  TESSERA_HOST_DEVICE constexpr TilePlace at(int head, int block) const {
    return {head, block % query_blocks, block / query_blocks};
  }
  /// Of a launch without a planned order. Behind a causal mask the last queries see most: theirs come first.
  TESSERA_HOST_DEVICE constexpr TilePlace at_position(int position, bool last_first) const {
    int const side = heads * sequences, block = position / side, rest = position % side;
    return {rest % heads, last_first ? query_blocks - 1 - block : block, rest / heads};
  }
};

}  // namespace tessera::attention_sm90
