// SPDX-License-Identifier: Apache-2.0
// A plan on a machine, without the machine.
#pragma once

#include <vector>

#include "../measure/machine_profile.hpp"
#include "../plan/plan.hpp"
#include "../timeline.hpp"

namespace tessera {

struct SimulateOptions {
  bool record_tiles = true;  ///< false: totals only (pricing a candidate)
  /// By stage: from when a tile has posted until those who wait for it may see that, while its block goes on,
  /// nanoseconds: what goes to a peer over a link. Empty: at once.
  std::vector<double> seen_later_ns = {};
};

/// Deterministic: same input, same bytes. Pure. Refuses a plan that makes no progress (E0501) with
/// the wait-for chain in the user's names, and one whose blocks do not fit an SM (E0301), and times of other
/// stages than the plan's (E0505).
Expected<Timeline> simulate(Plan const& plan, MachineProfile const& machine, SimulateOptions options = {});

/// A run, and the clock of the matrix units in it.
struct Turn {
  double clock_ghz = 0;
  Timeline timeline;
};

/// The same with the clock at which the plan runs alone, again and again: the one that the power limit allows
/// for it, or the machine's.
Expected<Turn> simulate_alone(Plan const& plan, MachineProfile const& machine, SimulateOptions options = {});

}  // namespace tessera
