// SPDX-License-Identifier: Apache-2.0
// Plans that a GPU runs in turns: they share a clock.
#pragma once

#include <vector>

#include "simulate.hpp"

namespace tessera {

/// Each again and again in turns for the same time, shorter than the power limit's control takes to follow
/// (some 30 ms on an H200): the clock is the one at which their mean power is the limit, not that which each
/// would settle at alone, but for a plan that would go beyond the burst limit at it. Without a power limit
/// the same as simulate() for each. Refuses what simulate() refuses, and the first such plan refuses all.
Expected<std::vector<Turn>> simulate_in_turns(std::vector<Plan> const& plans, MachineProfile const& machine,
                                              SimulateOptions options = {});

/// The machine at the clock that these plans share in turns, with no power limit of its own; unchanged
/// without a limit, or where they cannot be simulated. What is compared there is compared by its cycles: a
/// plan that draws less has no faster clock of it.
MachineProfile at_shared_clock(std::vector<Plan> const& plans, MachineProfile const& machine);

}  // namespace tessera
