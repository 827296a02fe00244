// SPDX-License-Identifier: Apache-2.0
#include "plan/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "plan/assemble.hpp"
#include "plan/forms.hpp"
#include "tessera/plan/orders.hpp"
#include "tessera/plan/progress.hpp"

namespace tessera {
namespace {

constexpr Mechanism k_tile_mechanisms[] = {Mechanism::wait_kernel, Mechanism::pdl_tiles, Mechanism::fused};

/// Merging looks at every (consumer tile, producer tile) pair; beyond this many it is not worth its time.
constexpr std::int64_t k_most_pairs_to_merge = 2'000'000;

/// A simulated block takes a few microseconds of one core, so that this many keep a search below a second.
/// Counted in blocks and not in time, because the same input must give the same plan.
constexpr std::int64_t k_block_budget = 150'000;
/// Priced although the budget is spent: stream order, PDL, and each other mechanism with two policies ...
constexpr int k_least_priced = 10;
/// ... unless the pipeline is so large that they alone would take this many blocks, some ten seconds. Stream
/// order and PDL, with and without early loads, are always priced.
constexpr std::int64_t k_most_blocks = 3'000'000;
constexpr int k_always_priced = 3;
/// A simulated wait takes some 50 ns, so that a candidate with more waits takes longer than all its blocks.
constexpr std::int64_t k_most_waits = 20'000'000;

std::int64_t blocks_of(Pipeline const& pipeline) {
  std::int64_t blocks = 0;
  for (auto const& stage : pipeline.stages) blocks += stage.blocks();
  return blocks;
}

/// Waits of all blocks of one launch, as far as the recipe's policies say; saturates.
std::int64_t waits_of(Recipe const& recipe) {
  std::int64_t waits = 0;
  for (auto const& policy : recipe.policies)
    waits += std::min(policy.waits, std::numeric_limits<std::int64_t>::max() - waits);
  return waits;
}

std::string recipe_text(Recipe const& recipe, Pipeline const& pipeline) {
  std::string text = to_text(recipe.mechanism);
  std::vector<std::string> names;
  for (auto const& policy : recipe.policies)
    if (std::find(names.begin(), names.end(), policy.name) == names.end()) names.push_back(policy.name);
  for (std::size_t i = 0; i < names.size(); ++i) text += (i == 0 ? ", " : " + ") + names[i];
  if (auto const kernels = kernel_text(pipeline); !kernels.empty()) text += ", " + kernels;
  if (recipe.as_needed_order) text += ", tiles as needed";
  if (recipe.merged_tickets) text += ", merged tickets";
  return text;
}

bool same_kernels(Pipeline const& a, Pipeline const& b) {
  return std::equal(
      a.stages.begin(), a.stages.end(), b.stages.begin(), b.stages.end(),
      [](Stage const& p, Stage const& q) { return p.kernel == q.kernel && p.splits == q.splits; });
}

/// The same but for texts and predictions.
bool same_plan(Plan const& a, Plan const& b) {
  auto const same_sets = std::equal(a.semaphores.begin(), a.semaphores.end(), b.semaphores.begin(),
                                    b.semaphores.end(), [](SemaphoreSet const& p, SemaphoreSet const& q) {
                                      return p.producer == q.producer && same_map(p.map, q.map);
                                    });
  return same_sets && a.stages == b.stages && a.launches == b.launches && a.reuse_edges == b.reuse_edges &&
         std::equal(a.dependences.begin(), a.dependences.end(), b.dependences.begin(), b.dependences.end(),
                    [](auto const& p, auto const& q) { return p.semaphore_set == q.semaphore_set; }) &&
         same_kernels(a.pipeline, b.pipeline);
}

bool same_family(std::vector<Policy> const& a, std::vector<Policy> const& b) {
  return std::equal(a.begin(), a.end(), b.begin(),
                    [](Policy const& p, Policy const& q) { return same_map(p.map, q.map); });
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

Recipe Search::recipe(Mechanism mechanism, Pipeline const& pipeline) const {
  auto recipe = recipe_for(mechanism, options_.all_optimizations);
  recipe.chained = may_chain(options_, machine_, pipeline) && mechanism != Mechanism::wait_kernel;
  return recipe;
}

bool Search::wants(Mechanism mechanism) const {
  return options_.mechanisms.empty() || std::find(options_.mechanisms.begin(), options_.mechanisms.end(),
                                                  mechanism) != options_.mechanisms.end();
}

void Search::leave_out(std::string description, std::string reason) {
  left_out_.push_back({std::move(description), 0, std::move(reason)});
}

void Search::note_refusal(Recipe const& recipe, Pipeline const& pipeline, Diagnostics const& why) {
  leave_out(recipe_text(recipe, pipeline), "refused: " + why.front().message);
  for (auto const& reason : why)  // most are the same for every policy and every combination of shapes
    if (std::find(refusals_.begin(), refusals_.end(), reason) == refusals_.end()) refusals_.push_back(reason);
}

Search::Tried Search::price(Plan plan, Recipe const& recipe) {
  if (options_.max_priced > 0 && priced_ >= options_.max_priced && best_stream_) {
    leave_out(describe(plan),
              fmt::format("not priced: {} candidates were, which is the limit asked for", priced_));
    return Tried::refused;
  }
  auto timeline = price_(plan);
  ++priced_;
  blocks_priced_ += blocks_of(plan.pipeline);
  if (!timeline) {
    note_refusal(recipe, plan.pipeline, timeline.error());
    return Tried::refused;
  }
  auto outcome = outcome_of(plan, recipe, *timeline, machine_);
  plan.predicted_us = outcome.us;
  bool const stream = outcome.mechanism == Mechanism::stream_order;
  if (is_stream_order(plan) && (!best_stream_ || outcome.us < best_stream_->us)) best_stream_ = outcome;
  outcomes_.push_back(outcome);
  if (stream && !wants(Mechanism::stream_order)) return Tried::not_better;
  bool const better = kept_.empty() || outcome.us < kept_.front().outcome.us;
  timeline->tiles.clear();
  keep({recipe, std::move(plan), std::move(*timeline), std::move(outcome)});
  return better ? Tried::better : Tried::not_better;
}

void Search::keep(Candidate candidate) {
  auto const most = static_cast<std::size_t>(std::max(1, options_.keep));
  // What was priced first is simpler, so that it wins a tie.
  auto const place =
      std::upper_bound(kept_.begin(), kept_.end(), candidate,
                       [](Candidate const& a, Candidate const& b) { return a.outcome.us < b.outcome.us; });
  if (place == kept_.end() && kept_.size() >= most) return;
  auto const same = [&](Candidate const& other) { return same_plan(other.plan, candidate.plan); };
  if (std::any_of(kept_.begin(), kept_.end(), same)) return;
  kept_.insert(place, std::move(candidate));
  if (kept_.size() > most) kept_.pop_back();
}

bool Search::affordable(Pipeline const& pipeline) const {
  auto const spent = blocks_priced_ + blocks_of(pipeline);
  return priced_ < k_always_priced || spent <= k_block_budget ||
         (priced_ < k_least_priced && spent <= k_most_blocks);
}

void Search::offer(Plan plan, Recipe const& recipe) {
  if (known(describe(plan))) return;
  if (!affordable(plan.pipeline)) {
    ++beyond_budget_;
    return;
  }
  auto proof = prove_progress(plan, machine_);
  if (!proof) return leave_out(describe(plan), "refused: " + proof.error().front().message);
  plan.proof = std::move(*proof);
  price(std::move(plan), recipe);
}

Search::Tried Search::try_recipe(CheckedPipeline const& checked, Recipe const& recipe) {
  if (!affordable(checked.pipeline())) {
    ++beyond_budget_;
    return Tried::refused;
  }
  if (auto const waits = waits_of(recipe); waits > k_most_waits) {
    note_refusal(
        recipe, checked.pipeline(),
        {{"E0504",
          Severity::error,
          checked.pipeline().where,
          fmt::format("its blocks wait {} times, more than the {} that can be priced", waits, k_most_waits),
          {},
          "ask for a coarser policy, or larger tiles"}});
    return Tried::refused;
  }
  auto plan = build_plan(checked, machine_, recipe);
  if (!plan) {
    note_refusal(recipe, checked.pipeline(), plan.error());
    return Tried::refused;
  }
  if (recipe.merged_tickets && plan->launches.front().tickets.empty())
    return Tried::not_better;  // stage by stage, known already
  return price(std::move(*plan), recipe);
}

Expected<double> Search::stream_order(Pipeline const& pipeline, std::vector<StageRecipe> const& forms) {
  auto recipe = recipe_for(Mechanism::stream_order, options_.all_optimizations);
  recipe.stages = forms;
  auto plan = assemble(pipeline, {}, machine_, recipe);
  if (!plan) return tl::make_unexpected(std::move(plan).error());
  auto const before = outcomes_.size();
  price(std::move(*plan), recipe);
  if (outcomes_.size() == before) {
    if (refusals_.empty()) return best_stream_us();  // the limit of priced candidates
    return tl::make_unexpected(refusals_);
  }
  return outcomes_.back().us;
}

Expected<std::vector<std::vector<Policy>>> Search::allowed_policies(Pipeline const& pipeline) const {
  std::vector<std::vector<Policy>> result;
  for (std::size_t d = 0; d < pipeline.dependences.size(); ++d) {
    auto policies = generate_policies(pipeline, static_cast<int>(d));
    if (!options_.policies.empty()) {
      std::string known;
      for (auto const& policy : policies) known += (known.empty() ? "" : ", ") + policy.name;
      std::erase_if(policies, [&](Policy const& policy) {
        return std::find(options_.policies.begin(), options_.policies.end(), policy.name) ==
               options_.policies.end();
      });
      if (policies.empty()) {
        auto const& dependence = pipeline.dependences[d];
        return refuse({"E0304",
                       Severity::error,
                       dependence.where,
                       fmt::format("none of the policies asked for suits what {} reads of {}",
                                   pipeline.stages[static_cast<std::size_t>(dependence.consumer)].name,
                                   pipeline.stages[static_cast<std::size_t>(dependence.producer)].name),
                       {},
                       "policies of this dependence: " + known});
      }
    }
    result.push_back(std::move(policies));
  }
  return result;
}

std::vector<std::vector<Policy>> policy_families(std::vector<std::vector<Policy>> const& per_dependence) {
  std::vector<std::string> names;
  for (auto const& policies : per_dependence)
    for (auto const& policy : policies)
      if (std::find(names.begin(), names.end(), policy.name) == names.end()) names.push_back(policy.name);
  std::vector<std::vector<Policy>> families;
  for (auto const& name : names) {
    std::vector<Policy> family;
    for (auto const& policies : per_dependence) {
      auto const found = std::find_if(policies.begin(), policies.end(),
                                      [&](Policy const& policy) { return policy.name == name; });
      family.push_back(found != policies.end() ? *found : policies.front());
    }
    auto const same = [&](std::vector<Policy> const& other) { return same_family(family, other); };
    if (std::none_of(families.begin(), families.end(), same)) families.push_back(std::move(family));
  }
  return families;
}

void Search::grid_waits(CheckedPipeline const& checked, std::vector<StageRecipe> const& forms) {
  bool const single = checked.pipeline().stages.size() < 2;
  auto const mechanism = single ? Mechanism::stream_order : Mechanism::pdl;
  auto recipe = this->recipe(mechanism, checked.pipeline());
  if (!wants(mechanism) || (single && !recipe.chained)) return;
  recipe.stages = forms;
  // Early loads share the bandwidth of the stage that still runs: they need not pay.
  if (try_recipe(checked, recipe) == Tried::refused || !recipe.reorder_loads || single) return;
  recipe.reorder_loads = false;
  try_recipe(checked, recipe);
}

Expected<void> Search::tile_waits(CheckedPipeline const& checked) {
  auto const& pipeline = checked.pipeline();
  if (pipeline.stages.size() < 2) return {};
  auto const policies = allowed_policies(pipeline);
  if (!policies) return tl::make_unexpected(policies.error());

  struct Best {
    Recipe recipe;
    std::vector<std::vector<StageRecipe>> forms;
    double us = 0;
    bool any = false;
  };
  std::vector<Best> bests;
  for (auto const mechanism : k_tile_mechanisms) {
    if (!wants(mechanism)) continue;
    auto recipe = this->recipe(mechanism, pipeline);
    if (auto lacking = cannot_run(pipeline, machine_, recipe)) {
      note_refusal(recipe, pipeline, {std::move(*lacking)});
      continue;
    }
    bests.push_back({std::move(recipe), forms_behind_tiles(pipeline, machine_, mechanism), 0, false});
  }
  auto const attempt = [&](Best& best, Recipe const& recipe) {
    auto const count = outcomes_.size();
    try_recipe(checked, recipe);
    if (outcomes_.size() == count) return;
    if (!best.any || outcomes_.back().us < best.us) {
      best.recipe = recipe;
      best.us = outcomes_.back().us;
      best.any = true;
    }
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
      if (!affordable(pipeline)) {  // before the comparison with what is known, which is long for long chains
        ++beyond_budget_;
        continue;
      }
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

void Search::refine(CheckedPipeline const& checked) {
  if (!best() || !best()->outcome.mechanism || !same_kernels(best()->plan.pipeline, checked.pipeline()))
    return;
  auto const stages = checked.pipeline().stages.size();
  for (std::size_t s = 0; s < stages; ++s)
    for (auto const& form :
         all_forms_of(checked.pipeline().stages[s], machine_, *best()->outcome.mechanism)) {
      auto recipe = best()->recipe;
      if (form == StageRecipe{}) break;  // there is no choice
      recipe.stages.resize(stages);
      recipe.stages[s] = form;
      auto plan = build_plan(checked, machine_, recipe);
      if (!plan || known(describe(*plan))) continue;
      if (!affordable(checked.pipeline())) {
        ++beyond_budget_;
        continue;
      }
      price(std::move(*plan), recipe);
    }
}

void Search::ablate(CheckedPipeline const& checked) {
  if (!best() || best()->outcome.mechanism == Mechanism::stream_order || !options_.all_optimizations) return;
  for (bool Recipe::*flag : {&Recipe::avoid_wait_kernel, &Recipe::reorder_loads, &Recipe::avoid_custom_order,
                             &Recipe::plain_store}) {
    auto recipe = best()->recipe;
    if (!(recipe.*flag) || blocks_priced_ + blocks_of(checked.pipeline()) > k_most_blocks) continue;
    recipe.*flag = false;
    auto plan = build_plan(checked, machine_, recipe);
    if (plan && (plan->stages != best()->plan.stages || plan->launches != best()->plan.launches) &&
        !known(describe(*plan)))
      price(std::move(*plan), recipe);
  }
}

bool Search::known(std::string const& description) const {
  return std::any_of(outcomes_.begin(), outcomes_.end(),
                     [&](Outcome const& outcome) { return outcome.description == description; });
}

Expected<std::vector<Plan>> Search::finish() {
  if (!best()) {
    if (!refusals_.empty()) return tl::make_unexpected(refusals_);
    Diagnostic nothing;
    nothing.code = "E0303";
    nothing.message = "none of the mechanisms asked for applies to a single stage";
    nothing.suggestion = "ask for stream order";
    return refuse(std::move(nothing));
  }
  auto const& winner = best()->outcome;
  std::stable_sort(outcomes_.begin(), outcomes_.end(),
                   [](auto const& a, auto const& b) { return a.us < b.us; });
  std::vector<Plan> plans;
  for (auto& candidate : kept_) {
    plans.push_back(std::move(candidate.plan));
    plans.back().stream_order_us = best_stream_->us;
    plans.back().bound_by = bound_by(plans.back(), candidate.timeline, machine_);
  }
  auto& plan = plans.front();
  Outcome const* next = nullptr;
  bool winner_seen = false;
  for (auto const& outcome : outcomes_) {
    if (!winner_seen && outcome.description == winner.description && outcome.us == winner.us) {
      winner_seen = true;
      continue;
    }
    if (next == nullptr) next = &outcome;
    plan.alternatives.push_back({outcome.description, outcome.us, reason(outcome, winner)});
  }
  plan.alternatives.insert(plan.alternatives.end(), left_out_.begin(), left_out_.end());
  if (beyond_budget_ > 0)
    plan.alternatives.push_back(
        {fmt::format("{} more candidates", beyond_budget_), 0,
         fmt::format("not priced: a search prices {} blocks, and {} were spent on what looked better",
                     k_block_budget, blocks_priced_)});
  plan.why = choice_in_words(winner, *best_stream_, next, plan.bound_by);
  return plans;
}

}  // namespace tessera
