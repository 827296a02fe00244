// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/named_recipe.hpp"

#include "plan/assemble.hpp"
#include "tessera/check/check.hpp"

namespace tessera {
namespace {

Diagnostics cannot_keep(Pipeline const& pipeline, std::string message) {
  return {{"E0304",
           Severity::error,
           pipeline.where,
           std::move(message),
           {},
           "give each dependence a policy, or leave \"policies\" out for the finest"}};
}

/// That policies are as many as dependences and suit their producers' grids.
Expected<void> suits(Pipeline const& pipeline, Recipe const& how) {
  auto const policies = how.policies.size(), dependences = pipeline.dependences.size();
  if (!uses_semaphores(how.mechanism) || policies == 0) return {};
  if (policies != dependences)
    return tl::make_unexpected(cannot_keep(pipeline, "policies in the recipe: " + std::to_string(policies) +
                                                         "; dependences: " + std::to_string(dependences)));
  for (std::size_t d = 0; d < dependences; ++d) {
    auto const& producer = pipeline.stages[static_cast<std::size_t>(pipeline.dependences[d].producer)];
    if (auto const problem = problem_of(how.policies[d].map, producer.tile_grid()); !problem.empty())
      return tl::make_unexpected(cannot_keep(pipeline, "policy " + how.policies[d].name +
                                                           " does not suit the tiles of " + producer.name +
                                                           ": " + problem));
  }
  return {};
}

}  // namespace

Expected<Plan> build_plan(OperatorGraph const& graph, NamedRecipe const& recipe, Registry const& kernels,
                          MachineProfile const& machine) {
  std::vector<TileChoice> tiles;
  for (auto const& [name, splits, variant] : recipe.kernels) {
    auto const* kernel = kernels.find(name);
    if (kernel == nullptr)
      return refuse({"E0305",
                     Severity::error,
                     graph.where,
                     "no kernel " + name + " is registered, and a recipe names it",
                     {},
                     "register it (docs/extending.md), or name another"});
    tiles.push_back({*kernel, splits});
  }
  auto const tiled = tile(graph, tiles);
  if (!tiled) return tl::make_unexpected(tiled.error());
  auto const checked = check(*tiled);
  if (!checked) return tl::make_unexpected(checked.error());
  if (auto const fine = suits(*tiled, recipe.how); !fine) return tl::make_unexpected(fine.error());
  auto plan = build_plan(*checked, machine, recipe.how);
  for (std::size_t s = 0; plan && s < plan->stages.size(); ++s)
    plan->stages[s].variant = recipe.kernels[s].variant;
  return plan;
}

std::optional<NamedRecipe> recipe_of(Plan const& plan) {
  auto const mechanism = mechanism_of(plan);
  if (!mechanism) return std::nullopt;
  NamedRecipe recipe;
  auto& how = recipe.how;
  how.mechanism = *mechanism;
  how.chained = plan.launches.front().start == LaunchStart::early;
  how.avoid_wait_kernel = true;
  for (auto const& launch : plan.launches) {
    if (!launch.tickets.empty()) return std::nullopt;
    if (launch.wait_kernel) how.avoid_wait_kernel = false;
  }
  how.reorder_loads = false;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    auto const& stage = plan.pipeline.stages[s];
    auto const& planned = plan.stages[s];
    if (stage.kernel.empty() || (!planned.order.table.empty() && !planned.order.bands)) return std::nullopt;
    recipe.kernels.push_back({stage.kernel, stage.splits, planned.variant});
    how.stages.push_back({});
    if (planned.order.bands) how.stages.back().band = planned.order.bands->rows;
    if (*mechanism != Mechanism::fused) how.stages.back().persistent_blocks = planned.persistent_blocks;
    how.reorder_loads |= planned.reorder_loads;
    if (!planned.plain_store && has_single_posts(plan, static_cast<int>(s))) how.plain_store = false;
    // Who has bands and knows no tickets says nothing here.
    if (planned.custom_order && !planned.order.bands) how.avoid_custom_order = false;
  }
  if (uses_semaphores(*mechanism))
    for (auto const& planned : plan.dependences) {
      auto const& set = plan.semaphores[static_cast<std::size_t>(planned.semaphore_set)];
      Policy policy;
      policy.name = set.policy;
      policy.map = set.map;
      how.policies.push_back(std::move(policy));
    }
  return recipe;
}

}  // namespace tessera
