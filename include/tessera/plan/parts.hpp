// SPDX-License-Identifier: Apache-2.0
// Plans of a chain's parts, cut out and put together: stages first, ..., end - 1 of a longer chain.
#pragma once

#include <vector>

#include "../check/check.hpp"
#include "plan.hpp"

namespace tessera {

/// The stages and the dependences between them; what comes from an earlier stage comes from outside. The
/// dependence's place in the whole is at `dependences[i]`. Precondition: 0 <= first < end <= stages.
struct PipelinePart {
  Pipeline pipeline;
  std::vector<int> dependences;
};
PipelinePart part_of(Pipeline const& whole, int first, int end);

/// The plan of these stages alone: its first launch starts in order, semaphores keep their numbers. What it
/// waits for outside is complete. Precondition: no launch is cut in two.
Plan part_of(Plan const& whole, int first, int end);

/// One part of a chain: its plan, made for part_of(whole, ...), and how its first launch starts after the
/// part before.
struct PlannedPart {
  Plan plan;
  LaunchStart start = LaunchStart::in_order;
};

/// The parts, which cover the chain, as one plan without price or proof. Dependences between parts are kept
/// by the order of launches: kept_by() says `completion` or, into an early launch, `grid_wait`. `reuses` are
/// the whole chain's.
Plan join(Pipeline const& whole, std::vector<BufferReuse> const& reuses,
          std::vector<PlannedPart> const& parts);

}  // namespace tessera
