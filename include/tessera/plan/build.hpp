// SPDX-License-Identifier: Apache-2.0
// One candidate, put together: semaphore layout, orders, occupancy, optimizations, proof of progress.
#pragma once

#include <string>
#include <vector>

#include "../check/check.hpp"
#include "../measure/machine_profile.hpp"
#include "plan.hpp"
#include "policies.hpp"

namespace tessera {

/// What makes one candidate differ from another. The optimizations are wishes: each is used where it is
/// possible, pays by the paper's rule (IV-C) and leaves progress provable.
struct Recipe {
  Mechanism mechanism = Mechanism::stream_order;
  std::vector<Policy> policies;   ///< one per dependence, for mechanisms with semaphores; empty: the finest
  bool as_needed_order = false;   ///< dependence_orders() instead of row major
  bool merged_tickets = false;    ///< fused: merged_tickets() instead of stage by stage
  bool avoid_wait_kernel = true;  ///< W: no wait kernel where producer and consumer take less than two waves
  bool reorder_loads = true;      ///< R: operands without a producer load before the wait
  bool avoid_custom_order =
      true;                 ///< T: no tickets where the tiles take at most two waves in row major order
  bool plain_store = true;  ///< a release store where a single post makes the value
};

/// A plan with everything but its price, alternatives and reasons. Refuses a stage that does not fit an SM
/// (E0301), a mechanism that the machine does not have (E0303) and what could get stuck (E0302).
Expected<Plan> build_plan(CheckedPipeline const& checked, MachineProfile const& machine,
                          Recipe const& recipe);

/// "PDL + tiles, RowSync, 128x256x64 -> 128x256x64, +RT"
std::string describe(Plan const& plan);

}  // namespace tessera
