// SPDX-License-Identifier: Apache-2.0
// Every schedule of a small plan: the oracle behind prove_progress.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "../measure/machine_profile.hpp"
#include "../plan/plan.hpp"

namespace tessera {

struct Exploration {
  bool complete = false;  ///< false: the state limit was reached; no conclusion
  std::int64_t states = 0;
  std::vector<std::string> deadlock;  ///< a schedule that gets stuck, step by step; empty: none exists
};

/// Told the number of states seen so far, none of them stuck: for each thousand or so.
using ExplorationObserver = std::function<void(std::int64_t states)>;

/// All interleavings of block dispatch, completion and posting that the plan's launches allow on this
/// machine, without times. Same assumptions on the hardware as prove_progress.
Exploration explore(Plan const& plan, MachineProfile const& machine, std::int64_t max_states = 1'000'000,
                    ExplorationObserver const& observer = {});

}  // namespace tessera
