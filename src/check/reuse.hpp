// SPDX-License-Identifier: Apache-2.0
// Buffers that a later stage overwrites, and whether the dependences already order the tiles.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/check/check.hpp"

namespace tessera::check_detail {

/// All (later writer, earlier reader or writer, buffer) triples of a pipeline, undecided; more than
/// k_max_reuses of them need not be all.
///
/// Buffers have names, not addresses. A stage that has the grid and the bytes per block of an earlier
/// writer is taken to overwrite its buffer tile by tile; any other, and any reader that no dependence
/// describes, is taken to touch the whole buffer.
std::vector<BufferReuse> find_reuses(Pipeline const& pipeline);

/// A tile awaits what its dependences name, and what those awaited: they were complete, so all of
/// their reads were done. Decides `covered`, and if false sets the first pair in launch order.
///
/// decide_reuse tries the cheaper way of the two below first. false: both gave up, or the effort for the
/// whole pipeline is spent. The reuse is then "not covered" with the first tile of each stage: that is
/// safe (the planner then orders the stages) but the pair is no counter-example.
struct ReuseEffort {
  std::int64_t steps = std::int64_t{1} << 27;  ///< of decide_by_tiles; some 0.7 s
  int set_questions = 4;                       ///< calls of decide_by_sets; about 1 s each at worst
};
bool decide_reuse(Pipeline const& pipeline, BufferReuse& reuse, ReuseEffort& effort);

/// Decides all of find_reuses(). What follows from two answers is not asked: a tile that awaits the last
/// writer's tile awaits all that this one awaited. So what a loop asks grows with its iterations, not with
/// their pairs.
void decide_reuses(Pipeline const& pipeline, std::vector<BufferReuse>& reuses);

/// Symbolically. false: isl gave up, `reuse` is unchanged.
bool decide_by_sets(Pipeline const& pipeline, BufferReuse& reuse, unsigned long operations);
/// Tile by tile; takes what it does from `steps`. false: none were left, `reuse` is unchanged.
bool decide_by_tiles(Pipeline const& pipeline, BufferReuse& reuse, std::int64_t& steps);

/// How the tiles of `reuse.reader` and of `reuse.writer` meet in the buffer.
struct Conflict {
  bool whole = false;            ///< every reader tile with every writer tile
  bool same_tile = false;        ///< tile t with tile t
  std::vector<int> dependences;  ///< reader tile with each tile that it reads through these
};
Conflict conflict_of(Pipeline const& pipeline, BufferReuse const& reuse);

}  // namespace tessera::check_detail
