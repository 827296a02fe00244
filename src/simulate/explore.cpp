// SPDX-License-Identifier: Apache-2.0
#include "tessera/simulate/explore.hpp"

#include "explore_search.hpp"

namespace tessera {

Exploration explore(Plan const& plan, MachineProfile const& machine, std::int64_t max_states,
                    ExplorationObserver const& observer) {
  // A finish only posts and makes room, so it never takes a step away from another block: whatever state
  // without a next step can be reached by finishing late can be reached by finishing at once.
  return exploration::search(plan, machine, max_states, exploration::Finishing::at_once, observer);
}

}  // namespace tessera
