// SPDX-License-Identifier: Apache-2.0
// The one call by which a workload becomes a plan.
#pragma once

#include "tessera/describe/workload.hpp"
#include "tessera/simulate/rank.hpp"

namespace tessera::cli {

/// choose_by_simulation() of operators over the kernels that Tessera ships, or of a pipeline as it is.
Expected<Plan> plan_workload(Workload const& workload, MachineProfile const& machine,
                             PlanOptions const& options = {}, PriceObserver const& observer = {});

}  // namespace tessera::cli
