// SPDX-License-Identifier: Apache-2.0
#include "tessera/tune/variants.hpp"

#include <algorithm>
#include <limits>

namespace tessera {

Plan with_fastest_variants(Plan plan, PlanVariants const& variants, Stopwatch const& measure) {
  for (int launch = 0; launch < static_cast<int>(plan.launches.size()); ++launch) {
    auto const first = static_cast<std::size_t>(plan.launches[static_cast<std::size_t>(launch)].first);
    auto best = plan.stages[first].variant;
    auto least = std::numeric_limits<double>::infinity();
    for (auto const& word : variants(plan, launch)) {
      plan.stages[first].variant = word;
      if (auto const us = measure(plan); us && *us < least) least = *us, best = word;
    }
    plan.stages[first].variant = best;
  }
  return plan;
}

void take_variants(Plan& plan, Plan const& from) {
  for (std::size_t s = 0; s < std::min(plan.stages.size(), from.stages.size()); ++s)
    if (plan.stages[s].variant.empty() && plan.pipeline.stages[s].kernel == from.pipeline.stages[s].kernel)
      plan.stages[s].variant = from.stages[s].variant;
}

}  // namespace tessera
