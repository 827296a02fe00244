// SPDX-License-Identifier: Apache-2.0
#include "simulate/cusync_steps.hpp"

#include "tessera/simulate/simulate.hpp"

namespace tessera {

Expected<double> simulated_us(CheckedPipeline const& checked, MachineProfile const& machine,
                              Recipe const& recipe) {
  auto const plan = build_plan(checked, machine, recipe);
  if (!plan) return tl::make_unexpected(plan.error());
  auto const timeline = simulate(*plan, machine, {false});
  if (!timeline) return tl::make_unexpected(timeline.error());
  return static_cast<double>(timeline->end) * 1e-6;
}

Recipe cusync_step(int number, std::vector<Policy> policies) {
  Recipe recipe;
  recipe.mechanism = Mechanism::wait_kernel;
  recipe.policies = std::move(policies);
  recipe.reorder_loads = number >= 1;
  recipe.avoid_wait_kernel = number >= 2;
  recipe.avoid_custom_order = number >= 3;
  return recipe;
}

}  // namespace tessera
