// SPDX-License-Identifier: Apache-2.0
// What a launch tells the kernel.
#pragma once

#include <cuda.h>

#include <tessera/sync.cuh>
#include <tessera/sync/runtime_stage.cuh>

#include "sight.hpp"

namespace tessera::attention_sm90 {

/// Where a head begins in a row of q or out.
struct HeadPlace {
  long long row = 0, head = 0, group = 0;
};

struct Parameters {
  CUtensorMap q;     ///< head_size, rows, heads of a key head, key heads
  CUtensorMap k, v;  ///< head_size, rows, key heads
  void* out = nullptr;
  HeadPlace out_place;
  int const* query_offsets = nullptr;
  int const* key_offsets = nullptr;
  int const* key_lengths = nullptr;
  int queries_each = 0, keys_each = 0;  ///< of a sequence, where there are no offsets
  int query_step = 0, key_step = 0;     ///< from a sequence to the next, likewise
  int query_rows = 0, key_rows = 0;
  Tiles tiles;
  Sight sight;
  int group = 1;  ///< heads to a key head
  int head_size = 0;
  float scale = 0;         ///< of scores, for powers of two
  float weight_scale = 1;  ///< of sums of weighted values: 1 / (1 - drop)
  unsigned drop_below = 0;
  unsigned long long seed = 0;
  bool last_first = false;
  bool planned = false;         ///< tiles are those of the stage
  bool packed = false;          ///< whose sequences have as many blocks as they need
  bool waits_at_start = false;  ///< for the launches before, as a whole
  RuntimeStage stage;
  ChainMemory memory;
  DeadlineWatch<> watch;
};

}  // namespace tessera::attention_sm90
