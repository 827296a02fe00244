// SPDX-License-Identifier: Apache-2.0
// A plan that was found for some sizes, made for others.
#pragma once

#include "../describe/workload.hpp"
#include "../measure/machine_profile.hpp"
#include "plan.hpp"

namespace tessera {

/// The same plan for the sizes of `graph`: the same kernels, splits, launches, policies, bands and switches
/// on the new grids, proved again. What follows from sizes is made again: orders of bands, places of
/// semaphores, occupancy, waves. Workers, and a persistent grid, are at most the blocks; workers that were as
/// many as the blocks are again, if they can be resident. A plain store stays where a single post still makes
/// a value. For the sizes that it was made for this is the plan itself; for others it has no price and no
/// alternatives.
///
/// Refuses (E0306) what belongs to one grid: tables of tiles or semaphores, lists of tickets; also
/// operators that read each other in another way and kernels that are not registered. Refuses in tile()'s
/// words what the kernels cannot compute, and as prove_progress() does what could get stuck.
Expected<Plan> resize(Plan const& tuned, OperatorGraph const& graph, Registry const& kernels,
                      MachineProfile const& machine);

}  // namespace tessera
