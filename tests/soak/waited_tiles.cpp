// SPDX-License-Identifier: Apache-2.0
#include "soak/waited_tiles.hpp"

#include <algorithm>

namespace tessera::soak {
namespace {

/// May blocks of the consumer wait while a tile of the producer is computed?
bool runs_meanwhile(Plan const& plan, int producer, int consumer) {
  int const from = launch_of(plan, producer), to = launch_of(plan, consumer);
  // A single worker computes the tile, and waits for nothing meanwhile.
  if (from == to) return plan.launches[static_cast<std::size_t>(from)].workers > 1;
  for (int l = from + 1; l <= to; ++l)
    if (plan.launches[static_cast<std::size_t>(l)].start == LaunchStart::in_order) return false;
  return from < to;
}

}  // namespace

std::vector<int> waited_stages(Plan const& plan) {
  std::vector<int> stages;
  for (auto const& planned : plan.dependences) {
    auto const& dependence = plan.pipeline.dependences[static_cast<std::size_t>(planned.dependence)];
    if (planned.semaphore_set >= 0 && runs_meanwhile(plan, dependence.producer, dependence.consumer))
      stages.push_back(dependence.producer);
  }
  std::sort(stages.begin(), stages.end());
  stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  return stages;
}

}  // namespace tessera::soak
