// SPDX-License-Identifier: Apache-2.0
#include "plan/tries.hpp"

#include <algorithm>

#include "plan/assemble.hpp"
#include "plan/awaited_pairs.hpp"
#include "plan/forms.hpp"
#include "plan/policy_families.hpp"
#include "tessera/plan/orders.hpp"

namespace tessera {
namespace {

constexpr Mechanism k_tile_mechanisms[] = {Mechanism::wait_kernel, Mechanism::pdl_tiles, Mechanism::fused};

/// Merging looks at every (consumer tile, producer tile) pair; beyond this many it is not worth its time.
constexpr std::int64_t k_most_pairs_to_merge = 2'000'000;

/// As the search's options want it.
Recipe wanted_recipe(Search const& search, Mechanism mechanism, Pipeline const& pipeline) {
  auto recipe = recipe_for(mechanism, search.options().all_optimizations);
  recipe.chained =
      may_chain(search.options(), search.machine(), pipeline) && mechanism != Mechanism::wait_kernel;
  return recipe;
}

}  // namespace

bool may_chain(PlanOptions const& options, MachineProfile const& machine, Pipeline const& pipeline) {
  return options.chained && machine.has_pdl && pipeline.stages.front().can.start_early;
}

Recipe recipe_for(Mechanism mechanism, bool optimized) {
  Recipe recipe;
  recipe.mechanism = mechanism;
  recipe.avoid_wait_kernel = recipe.reorder_loads = recipe.avoid_custom_order = recipe.plain_store =
      optimized;
  return recipe;
}

Expected<double> price_stream_order(Search& search, Pipeline const& pipeline,
                                    std::vector<StageRecipe> const& forms) {
  auto recipe = recipe_for(Mechanism::stream_order, search.options().all_optimizations);
  recipe.stages = forms;
  auto plan = assemble(pipeline, {}, search.machine(), recipe);
  if (!plan) return tl::make_unexpected(std::move(plan).error());
  if (auto const us = search.price(std::move(*plan), recipe)) return *us;
  if (search.refusals().empty()) return search.best_stream_us();  // the limit of priced candidates
  return tl::make_unexpected(search.refusals());
}

void try_grid_waits(Search& search, CheckedPipeline const& checked, std::vector<StageRecipe> const& forms) {
  bool const single = checked.pipeline().stages.size() < 2;
  auto const mechanism = single ? Mechanism::stream_order : Mechanism::pdl;
  auto recipe = wanted_recipe(search, mechanism, checked.pipeline());
  if (!search.wants(mechanism) || (single && !recipe.chained)) return;
  recipe.stages = forms;
  // Early loads share the bandwidth of the stage that still runs: they need not pay.
  if (!search.attempt(checked, recipe) || !recipe.reorder_loads || single) return;
  recipe.reorder_loads = false;
  search.attempt(checked, recipe);
}

Expected<void> try_tile_waits(Search& search, CheckedPipeline const& checked) {
  auto const& pipeline = checked.pipeline();
  if (pipeline.stages.size() < 2) return {};
  // Policies that are asked for are looked at all the same: whether they suit a dependence.
  if (!search.wants_tile_waits() && search.options().policies.empty()) return {};
  if (auto const too_many = too_many_awaited_pairs(checked)) {
    for (auto const mechanism : k_tile_mechanisms)
      if (search.wants(mechanism)) search.note_refusal(recipe_for(mechanism, true), pipeline, {*too_many});
    return {};
  }
  auto const policies = allowed_policies(pipeline, search.options().policies);
  if (!policies) return tl::make_unexpected(policies.error());

  struct Best {
    Recipe recipe;
    std::vector<std::vector<StageRecipe>> forms;
    double us = 0;
    bool any = false;
  };
  std::vector<Best> bests;
  for (auto const mechanism : k_tile_mechanisms) {
    if (!search.wants(mechanism)) continue;
    auto recipe = wanted_recipe(search, mechanism, pipeline);
    if (auto lacking = cannot_run(pipeline, search.machine(), recipe)) {
      search.note_refusal(recipe, pipeline, {std::move(*lacking)});
      continue;
    }
    bests.push_back({std::move(recipe), forms_behind_tiles(pipeline, search.machine(), mechanism), 0, false});
  }
  auto const attempt = [&](Best& best, Recipe const& recipe) {
    auto const us = search.attempt(checked, recipe);
    if (!us || (best.any && *us >= best.us)) return;
    best.recipe = recipe;
    best.us = *us;
    best.any = true;
  };

  // Every mechanism with one family before any with the next, so that a short budget leaves none out.
  auto const families = policy_families(*policies);
  auto const most_forms =
      bests.empty() ? 0 : std::max_element(bests.begin(), bests.end(), [](auto& a, auto& b) {
                            return a.forms.size() < b.forms.size();
                          })->forms.size();
  for (std::size_t form = 0; form < most_forms; ++form)
    for (auto const& family : families)
      for (auto& best : bests) {
        if (form >= best.forms.size()) continue;
        auto recipe = best.recipe;
        recipe.policies = family;
        recipe.stages = best.forms[form];
        attempt(best, recipe);
      }
  std::erase_if(bests, [](Best const& best) { return !best.any; });
  if (bests.empty()) return {};

  auto const orders = dependence_orders(pipeline);
  bool const has_order =
      std::any_of(orders.begin(), orders.end(), [](TileOrder const& order) { return !order.table.empty(); });
  std::int64_t pairs = 0;
  for (auto const& facts : checked.facts()) pairs += facts.pairs;
  for (auto& best : bests) {
    auto const variant = [&](bool Recipe::*member, bool value) {
      auto recipe = best.recipe;
      if (recipe.*member == value) return;
      recipe.*member = value;
      attempt(best, recipe);
    };
    if (has_order) variant(&Recipe::as_needed_order, true);
    variant(&Recipe::reorder_loads, false);
    if (best.recipe.mechanism == Mechanism::fused && pairs <= k_most_pairs_to_merge)
      variant(&Recipe::merged_tickets, true);
  }

  // A chain's dependences need not agree: change one after the other, under the best mechanism.
  if (policies->size() < 2) return {};
  auto& best =
      *std::min_element(bests.begin(), bests.end(), [](auto const& a, auto const& b) { return a.us < b.us; });
  auto known = families;
  for (std::size_t d = 0; d < policies->size(); ++d)
    for (auto const& policy : (*policies)[d]) {
      if (same_map(policy.map, best.recipe.policies[d].map)) continue;
      // Before the comparison with what is known, which is long for long chains.
      if (!search.affords(pipeline)) continue;
      auto recipe = best.recipe;
      recipe.policies[d] = policy;
      if (std::any_of(known.begin(), known.end(),
                      [&](auto const& other) { return same_family(recipe.policies, other); }))
        continue;
      known.push_back(recipe.policies);
      attempt(best, recipe);
    }
  return {};
}

void try_other_forms(Search& search, CheckedPipeline const& checked) {
  if (!search.best() || !search.best()->outcome.mechanism ||
      !same_kernels(search.best()->plan.pipeline, checked.pipeline()))
    return;
  auto const stages = checked.pipeline().stages.size();
  for (std::size_t s = 0; s < stages; ++s)
    for (auto const& form :
         all_forms_of(checked.pipeline().stages[s], search.machine(), *search.best()->outcome.mechanism)) {
      auto recipe = search.best()->recipe;
      if (form == StageRecipe{}) break;  // there is no choice
      recipe.stages.resize(stages);
      // A plan that is not priced is not built: of long chains that takes longer than all that came before.
      if (recipe.stages[s] == form || !search.affords(checked.pipeline())) continue;
      recipe.stages[s] = form;
      auto plan = build_plan(checked, search.machine(), recipe);
      if (!plan || search.known(describe(*plan))) continue;
      search.price(std::move(*plan), recipe);
    }
}

void ablate(Search& search, CheckedPipeline const& checked) {
  if (!search.best() || search.best()->outcome.mechanism == Mechanism::stream_order ||
      !search.options().all_optimizations)
    return;
  for (bool Recipe::*flag : {&Recipe::avoid_wait_kernel, &Recipe::reorder_loads, &Recipe::avoid_custom_order,
                             &Recipe::plain_store}) {
    auto recipe = search.best()->recipe;
    if (!(recipe.*flag) || !search.within_limits(checked.pipeline())) continue;
    recipe.*flag = false;
    auto plan = build_plan(checked, search.machine(), recipe);
    if (plan &&
        (plan->stages != search.best()->plan.stages || plan->launches != search.best()->plan.launches) &&
        !search.known(describe(*plan)))
      search.price(std::move(*plan), recipe);
  }
}

}  // namespace tessera
