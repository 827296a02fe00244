// SPDX-License-Identifier: Apache-2.0
// A plan on a machine, without the machine.
#pragma once

#include "../measure/machine_profile.hpp"
#include "../plan/plan.hpp"
#include "../timeline.hpp"

namespace tessera {

struct SimulateOptions {
  bool record_tiles = true;  ///< false: totals only (pricing a candidate)
};

/// Deterministic: same input, same bytes. Pure. Refuses a plan that makes no progress (E0501) with
/// the wait-for chain in the user's names, and one whose blocks do not fit an SM (E0301).
Expected<Timeline> simulate(Plan const& plan, MachineProfile const& machine, SimulateOptions options = {});

}  // namespace tessera
