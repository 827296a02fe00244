// SPDX-License-Identifier: Apache-2.0
// A loop that is planned once, for any number of iterations: one persistent launch, or a launch for each
// stage that starts before those of the iteration before are complete.
#pragma once

#include <string>
#include <vector>

#include "../describe/loop.hpp"
#include "../measure/machine_profile.hpp"
#include "exchange.hpp"
#include "plan.hpp"

namespace tessera {

/// What a tile reads of an earlier period.
struct CarriedEdge {
  Dependence dependence;  ///< between stages of the period
  int distance = 1;       ///< in periods
  int semaphore_set = 0;  ///< index into Plan::semaphores
};

/// The writer's tiles store only when all tiles of the reader are complete that many periods before.
struct CarriedReuse {
  int writer = 0;
  int reader = 0;
  int distance = 1;
  int semaphore_set = 0;
};

/// How a buffer goes from the tiles that write it to those that read it, and why.
struct BufferExchange {
  std::string buffer;
  ExchangeChoice choice;
};

/// A loop's plan, for one period of iterations: after it every buffer is back at its first copy. The period
/// is the plan's pipeline. Tile t of a stage posts to a semaphore of its own, once a period: whoever waits
/// for its value of period p waits for p + 1 posts.
///
/// One persistent launch: its workers draw the tickets of one period after the other. It cannot get stuck,
/// because every wait is for a tile with an earlier ticket, in the same period by the plan's proof, in an
/// earlier one by the order of periods; and all workers are resident.
///
/// Launches that overlap: each stage of the period is one, with a block for each tile, and starts early; so
/// does the first behind the last of the period before. They cannot get stuck, because every wait is for an
/// earlier launch, of which all blocks have started before any of a later one does.
struct LoopPlan {
  Loop loop;
  int period = 1;  ///< iterations: the least common multiple of the numbers of copies
  Plan plan;       ///< of unroll(loop, period), without what it reads of earlier periods
  std::vector<CarriedEdge> carried;
  std::vector<CarriedReuse> reuses;
  /// Which tile function computes a stage of the body, where several share one; empty: each has its own.
  std::vector<int> operations = {};
  /// Buffers whose elements carry the iteration: their readers see by themselves whether they are there, and
  /// no semaphore says it. A tile looks at every element of the tiles that its dependence names before it
  /// stores any.
  std::vector<std::string> tokens = {};
  /// What plan_loop_by_price() chose for each buffer that a stage reads of another; else empty.
  std::vector<BufferExchange> exchanges = {};

  bool is_persistent() const { return plan.launches.front().workers > 0; }
};

/// Plans a loop on a machine as one persistent launch. `workers`: blocks of the launch, all resident; 0: as
/// many as fit. Refuses what check() refuses (E0114, E0115, ...), a stage that fits on no SM (E0301), and
/// E0116: more than 64 iterations to a period, tiles in several splits, kernels that cannot wait, post or be
/// fused, dependences with another policy than a semaphore for each tile or that go to a peer, `tokens` that
/// no stage writes, fewer than 0 workers. Where a tile reads some tiles of `tokens` and not all, every store
/// to a copy that is used again waits for semaphores.
Expected<LoopPlan> plan_loop(Loop const& loop, MachineProfile const& machine, int workers = 0,
                             std::vector<std::string> const& tokens = {});

/// What a loop's operations and its launch offer beside semaphores.
struct LoopOffers {
  /// Buffers whose writers can store, and all of whose readers can take, elements that carry the iteration.
  std::vector<std::string> words;
  LoadAhead ahead;
};

/// Plans a loop as plan_loop() does, and chooses by price which of the offered buffers carry the iteration
/// (LoopPlan::tokens): bytes are the operands' bytes_per_block, blocks are tiles, but not more than workers.
/// Clusters are never chosen: no kernel of loops can run them. A machine that was not measured gets
/// semaphores, and LoopPlan::exchanges says so. Refuses as plan_loop() does; E0116 also for offers of what no
/// stage writes, and for negative bytes.
Expected<LoopPlan> plan_loop_by_price(Loop const& loop, MachineProfile const& machine,
                                      LoopOffers const& offers, int workers = 0);

/// Plans a loop on a machine as launches that overlap. Refuses as plan_loop() does, but asks of a stage's
/// kernel that it can be a launch by itself and start early in place of being fused; E0303 for a machine
/// without programmatic dependent launch.
Expected<LoopPlan> plan_loop_launches(Loop const& loop, MachineProfile const& machine);

}  // namespace tessera
