// SPDX-License-Identifier: Apache-2.0
// The one call by which a workload becomes a plan, and the words that say what is tried.
#pragma once

#include <string>
#include <vector>

#include "load.hpp"
#include "tessera/describe/workload.hpp"
#include "tessera/simulate/rank.hpp"

namespace tessera::cli {

/// "pdl_tiles" and the others; E0910 for a word that is none.
Expected<std::vector<Mechanism>> mechanisms_of(std::vector<std::string> const& words);

/// choose_by_simulation() of operators over the kernels that Tessera ships, or of a pipeline as it is.
Expected<Plan> plan_workload(Workload const& workload, MachineProfile const& machine,
                             PlanOptions const& options = {}, PriceObserver const& observer = {});

/// E0504: several sizes are planned in one command only if they take no longer than one may.
Expected<void> check_together(std::vector<SizedWorkload> const& workloads, MachineProfile const& machine,
                              PlanOptions const& options);

/// What stands behind an explained plan where it takes another time alone: at which clock which.
std::string clock_line(Plan const& plan, MachineProfile const& machine);

}  // namespace tessera::cli
