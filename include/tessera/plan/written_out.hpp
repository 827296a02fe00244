// SPDX-License-Identifier: Apache-2.0
// Iterations of a loop written out as one plan, for who wants to simulate or explore a loop whose kernels
// keep their iterations apart by themselves.
#pragma once

#include "../describe/loop.hpp"
#include "../measure/machine_profile.hpp"
#include "plan.hpp"

namespace tessera {

/// A launch for each stage of each iteration, which starts early and waits for the end of the one before, or
/// in order where the machine cannot. No block goes on to another tile. Refuses what check() and build_plan()
/// refuse.
Expected<Plan> plan_launches_written_out(Loop const& loop, MachineProfile const& machine, int iterations);

/// One persistent launch of all iterations with a semaphore for each tile, where a dependence asks for no
/// other policy; `workers`: 0: as many as fit. Refuses the same, and workers that do not fit (E0301).
Expected<Plan> plan_persistent_written_out(Loop const& loop, MachineProfile const& machine, int iterations,
                                           int workers = 0);

}  // namespace tessera
