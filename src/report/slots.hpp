// SPDX-License-Identifier: Apache-2.0
// A timeline's blocks by the place where they ran, and the names of tiles and places.
#pragma once

#include <string>
#include <vector>

#include "tessera/timeline.hpp"

namespace tessera::report {

struct Slot {
  int gpu = 0;
  int sm = 0;
  int slot = 0;
  std::vector<TileRecord const*> tiles;  ///< by start; point into the timeline
};

/// Every slot that ran at least one block, by (gpu, sm, slot).
std::vector<Slot> slots_of(Timeline const& timeline);

/// Of each stage, the most blocks of it that an SM holds at once, 1 at least: a block's share of an SM.
std::vector<int> most_at_once(Timeline const& timeline);

std::string slot_name(Timeline const& timeline, Slot const& slot);  ///< "SM 3", "SM 3.1", "GPU 0 SM 3.1"
std::string coordinates(StageSpan const& stage, TileRecord const& tile);  ///< "3,5", "3,5/1" for split 1
std::string stage_name(Timeline const& timeline, TileRecord const& tile);

/// When the block's first wait began: what it waited before `ready`, counted back from there.
std::int64_t wait_begin(TileRecord const& tile);

/// Where drawings put what its stores waited: at their end, though each of them may have waited.
std::int64_t store_wait_begin(TileRecord const& tile);

}  // namespace tessera::report
