// SPDX-License-Identifier: Apache-2.0
// A loop as launches that overlap: each is one stage of one period, a block for each tile.
#pragma once

#include "loop_worker.cuh"

namespace tessera {

/// One launch of a stage.
struct LoopLaunch {
  long long iteration = 0;  ///< counted from the first one that was asked for together
  bool asked = true;        ///< false: beyond the last one; the tiles wait and post, and compute nothing
  bool first = false;       ///< of those that were asked for together: starts behind all before it
};

/// First of all in a block. Blocks of a stage's launches draw from one counter, which says the tile and the
/// period. So the block may let the next launch start only when this has returned: all tickets of a launch
/// are then drawn before the first of a later one, however many launches overlap. Called by all threads.
TESSERA_HOST_DEVICE inline LoopDraw draw_in_launch(LoopRecord const& record, ChainMemory const& memory) {
  unsigned long long const ticket =
      draw_for_block<false>(detail::counter(memory, record.stage.index, detail::Counter::started));
  LoopDraw draw;
  draw.left = false;
  draw.stage = record.stage.index;
  draw.epoch = record.stage.tickets.launches(ticket);
  draw.tile = static_cast<int>(ticket - 1ULL * draw.epoch * record.stage.tickets.blocks);
  return draw;
}

}  // namespace tessera
