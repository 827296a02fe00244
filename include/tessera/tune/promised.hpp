// SPDX-License-Identifier: Apache-2.0
// The plans of operators that simulation promises most of, without measuring any kernel alone.
#pragma once

#include "search.hpp"

namespace tessera {

/// library_plan() with its simulated time.
Expected<Plan> priced_library_plan(OperatorGraph const& graph, Registry const& kernels,
                                   MachineProfile const& machine);

/// The library's plan, which is the baseline, and the best plans in stream order, with early starts and under
/// all mechanisms; none twice, and nothing tried. Times are simulated. E0305, and what the planner refuses.
Expected<Found> promised_plans(OperatorGraph const& graph, Registry const& kernels,
                               MachineProfile const& machine);

}  // namespace tessera
