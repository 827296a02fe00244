// SPDX-License-Identifier: Apache-2.0
// Can a plan get stuck? Decided before anything runs, for a number of SMs and an ordering guarantee.
#pragma once

#include <string>

#include "../measure/machine_profile.hpp"
#include "plan.hpp"

namespace tessera {

/// Proves that every schedule the ordering mechanism allows finishes, and says why in one sentence
/// with numbers; or refuses (E0302) with tiles that would wait on each other and what holds the SMs.
///
/// What is assumed of the hardware, and nothing more: a started block makes progress; PDL starts a
/// dependent block only when all blocks of its primary have triggered or exited; a persistent launch
/// no larger than the resident capacity is resident; and, only where
/// machine.dispatches_in_launch_order, blocks of an older kernel are placed before blocks of a younger.
Expected<std::string> prove_progress(Plan const& plan, MachineProfile const& machine);

}  // namespace tessera
