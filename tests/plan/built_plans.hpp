// SPDX-License-Identifier: Apache-2.0
// Plans of examples, made by one recipe.
#pragma once

#include <stdexcept>

#include "plan/examples.hpp"
#include "tessera/plan/build.hpp"

namespace tessera::examples {

inline CheckedPipeline checked(Pipeline const& pipeline) {
  auto result = check(pipeline);
  if (!result) throw std::runtime_error(to_text(result.error()));
  return *result;
}

/// Each dependence's policy of this number.
inline Recipe recipe_for(Pipeline const& pipeline, Mechanism mechanism, std::size_t policy = 0) {
  Recipe recipe;
  recipe.mechanism = mechanism;
  for (std::size_t d = 0; d < pipeline.dependences.size(); ++d) {
    auto const policies = generate_policies(pipeline, static_cast<int>(d));
    recipe.policies.push_back(policies[policy % policies.size()]);
  }
  return recipe;
}

inline Plan built(Pipeline const& pipeline, Recipe const& recipe, MachineProfile const& machine) {
  auto plan = build_plan(checked(pipeline), machine, recipe);
  if (!plan) throw std::runtime_error(to_text(plan.error()));
  return *plan;
}

}  // namespace tessera::examples
