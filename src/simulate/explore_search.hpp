// SPDX-License-Identifier: Apache-2.0
// The engine behind explore(), with its one reduction as a choice so that a test can compare both.
#pragma once

#include "tessera/simulate/explore.hpp"

namespace tessera::exploration {

enum class Finishing {
  at_once,   ///< a block that can finish does so before anything else happens
  any_time,  ///< blocks that can finish do so in any order, interleaved with placements
};

Exploration search(Plan const& plan, MachineProfile const& machine, std::int64_t max_states,
                   Finishing finishing, ExplorationObserver const& observer = {});

}  // namespace tessera::exploration
