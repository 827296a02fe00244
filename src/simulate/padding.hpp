// SPDX-License-Identifier: Apache-2.0
// Blocks that only fill clusters up, where a grid of tiles ends within one.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/measure/machine_profile.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera::simulation {

/// How many there are. In grids of columns and rows, as GEMMs have them.
std::int64_t blocks_that_pad(Stage const& stage, KernelTiming const& kernel);

/// A stage's blocks in the order in which they are handed out: position p of the stage's order, or ~p for a
/// block that fills up the cluster of that position's tile. Such blocks come behind the last tile of their
/// cluster, whose SMs they take side by side.
std::vector<std::int64_t> with_padding(Stage const& stage, StagePlan const& planned,
                                       KernelTiming const& kernel);

}  // namespace tessera::simulation
