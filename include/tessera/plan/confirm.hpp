// SPDX-License-Identifier: Apache-2.0
// A plan that comes from a file, held against a machine: nothing that it says about itself is taken for true.
#pragma once

#include "../measure/machine_profile.hpp"
#include "plan.hpp"

namespace tessera {

/// Refuses launches that need what the machine or a kernel lacks (E0303), and as prove_progress() does
/// (E0301, E0302) what does not fit or could get stuck; else gives the proof. Precondition: the plan is
/// consistent (choose() made it or parse_plan() accepted it).
Expected<std::string> confirm(Plan const& plan, MachineProfile const& machine);

/// The same for the machine that the plan names, where what the plan says of itself must be so (E0264): the
/// proof that it brings, and the blocks that fit an SM. A plan without a proof gets it.
Expected<void> confirm_own(Plan& plan, MachineProfile const& machine);

/// E0266, a warning, if the machine has other values than the plan was made with: names them all. Empty for
/// a plan that does not say its values.
Diagnostics other_values(Plan const& plan, MachineProfile const& machine);

}  // namespace tessera
