// SPDX-License-Identifier: Apache-2.0
// What a compiled kernel is told of its plan, in its parameters: one value for the warp that waits, those
// that post and the kernel's end.
#pragma once

#include <tessera/sync.cuh>
#include <tessera/sync/persistent_stage.cuh>

#include "gemm.hpp"

namespace tessera::gemm_sm90 {

/// In the order of use: what a block needs that has nothing to wait for comes first, because parameters are
/// fetched a line at a time, and each line is a miss at the start of a launch.
struct Synchronization {
  bool waits_for_a = false;  ///< before a tile's first load of it
  bool by_depth = false;     ///< as its depth gets ready, in tiles of `producer`; or for the launches before
  bool waits_whole = false;  ///< for `whole`, operands that are waited for as a whole, or before stores
  bool posts = false;
  bool early_weights = false;
  bool triggers = false;       ///< lets the next kernel start, at once
  bool triggers_late = false;  ///< or when those before are complete
  unsigned whole = 0;
  ProducerTile producer{1, 1};
  int producer_rows = 1, producer_columns = 1;  ///< of tiles
  LaunchedBlocks launched{1};
  ChainMemory memory;
  RuntimeStage stage;
  DeadlineWatch<> watch;
};

/// What a call says of its plan, but for the number of blocks.
Synchronization synchronization_of(Call const& call);

/// The memory and the watch are there, and what says when a can be loaded.
bool can_synchronize(Call const& call);

}  // namespace tessera::gemm_sm90
