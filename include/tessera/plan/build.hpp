// SPDX-License-Identifier: Apache-2.0
// One candidate, put together: semaphore layout, orders, occupancy, optimizations, proof of progress.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "../check/check.hpp"
#include "../measure/machine_profile.hpp"
#include "plan.hpp"
#include "policies.hpp"

namespace tessera {

/// How one stage's blocks run; what is not set is the planner's rule: row major, or bands of one row for
/// kernels that know no other order, and a persistent grid where nothing waits for tiles.
struct StageRecipe {
  std::optional<int> band;               ///< rows of tiles of make_band_order(); 0: all, column by column
  std::optional<int> persistent_blocks;  ///< 0: one block a tile

  bool operator==(StageRecipe const&) const = default;
};

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
  std::vector<StageRecipe> stages;  ///< one per stage; empty: the rules for all
  bool chained =
      false;  ///< the first launch starts early as well, behind whatever was enqueued before the plan
};

/// A plan with everything but its price, alternatives and reasons. Refuses a stage that does not fit an SM
/// (E0301), a mechanism that the machine does not have, or that a kernel cannot do, with a band or a
/// persistent grid that it cannot have (E0303), and what could get stuck (E0302).
Expected<Plan> build_plan(CheckedPipeline const& checked, MachineProfile const& machine,
                          Recipe const& recipe);

/// "PDL + tiles, RowSync, 128x256x64 -> 128x256x64, +RT"
std::string describe(Plan const& plan);

}  // namespace tessera
