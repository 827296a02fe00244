// SPDX-License-Identifier: Apache-2.0
// A loop in one persistent launch: planned once, for any number of iterations.
#pragma once

#include <vector>

#include "../describe/loop.hpp"
#include "../measure/machine_profile.hpp"
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

/// A loop's plan, for one period of iterations: after it every buffer is back at its first copy. The period
/// is the plan's pipeline, one persistent launch. Its workers draw the tickets of one period after the other.
/// Tile t of a stage posts to a semaphore of its own, once a period: whoever waits for its value of period p
/// waits for p + 1 posts.
///
/// Why it cannot get stuck: every wait is for a tile with an earlier ticket, in the same period by the plan's
/// proof, in an earlier one by the order of periods; and all workers are resident.
struct LoopPlan {
  Loop loop;
  int period = 1;  ///< iterations: the least common multiple of the numbers of copies
  Plan plan;       ///< of unroll(loop, period), without what it reads of earlier periods
  std::vector<CarriedEdge> carried;
  std::vector<CarriedReuse> reuses;
  /// Which tile function computes a stage of the body, where several share one; empty: each has its own.
  std::vector<int> operations = {};
};

/// Plans a loop on a machine. `workers`: blocks of the launch, all resident; 0: as many as fit. Refuses what
/// check() refuses (E0114, E0115, ...), a stage that fits on no SM (E0301), and E0116: more than 64
/// iterations to a period, tiles in several splits, kernels that cannot wait, post or be fused, dependences
/// with another policy than a semaphore for each tile or that go to a peer.
Expected<LoopPlan> plan_loop(Loop const& loop, MachineProfile const& machine, int workers = 0);

}  // namespace tessera
