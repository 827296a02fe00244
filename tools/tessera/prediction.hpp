// SPDX-License-Identifier: Apache-2.0
// The times that a plan of a file quotes.
#pragma once

#include "tessera/measure/machine_profile.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera::cli {

/// Warnings E0267 for times that cannot be the plan's on its machine: the simulated one takes the place of
/// the prediction, and no time that of a stream order which its own stages beat. A plan that quotes no time
/// is left alone.
Diagnostics check_prediction(Plan& plan, MachineProfile const& machine);

}  // namespace tessera::cli
