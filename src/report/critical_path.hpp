// SPDX-License-Identifier: Apache-2.0
// The blocks that made a run as long as it was.
#pragma once

#include <vector>

#include "tessera/plan/plan.hpp"
#include "tessera/timeline.hpp"

namespace tessera::report {

/// Why a block of the path did not begin to work earlier.
enum class HeldBy { nothing, place, tiles, stage };

struct PathBlock {
  TileRecord const* tile = nullptr;
  HeldBy held_by = HeldBy::nothing;  ///< by the block before it in the path
};

/// Is it of one GPU, and of the plan's stages and tiles?
bool is_of(Plan const& plan, Timeline const& timeline);

/// From the first block to the one that ended last. A block was held by what ended last before it worked: the
/// block that had its place on the SM, a tile that it reads, or, where dependences are kept by whole stages,
/// the last block of one. Empty without tiles, and of timelines that are not of this plan.
std::vector<PathBlock> critical_path(Plan const& plan, Timeline const& timeline);

}  // namespace tessera::report
