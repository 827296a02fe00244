// SPDX-License-Identifier: Apache-2.0
#include "plan/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "plan/assemble.hpp"
#include "tessera/plan/machine_values.hpp"
#include "tessera/plan/progress.hpp"

namespace tessera {

bool same_kernels(Pipeline const& a, Pipeline const& b) {
  return std::equal(
      a.stages.begin(), a.stages.end(), b.stages.begin(), b.stages.end(),
      [](Stage const& p, Stage const& q) { return p.kernel == q.kernel && p.splits == q.splits; });
}

namespace {

/// A simulated block takes a few microseconds of one core, so that this many keep a search below a second.
/// Counted in blocks and not in time, because the same input must give the same plan.
constexpr std::int64_t k_block_budget = 150'000;
/// Priced although the budget is spent: stream order, PDL, and each other mechanism with two policies ...
constexpr int k_least_priced = 10;
/// ... unless the pipeline is so large that they alone would take this many blocks, some ten seconds. Stream
/// order and PDL, with and without early loads, are always priced.
constexpr std::int64_t k_most_blocks = 3'000'000;
constexpr int k_always_priced = 3;
/// For ways to cut a chain, beside the budget of everything else.
constexpr std::int64_t k_offer_budget = 300'000;
/// A simulated wait takes some 50 ns, so that a candidate with more waits takes longer than all its blocks.
constexpr std::int64_t k_most_waits = 20'000'000;

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

}  // namespace

std::int64_t blocks_with_mechanisms(std::int64_t blocks) {
  return std::max(k_always_priced * blocks,
                  std::min(std::max(k_least_priced * blocks, k_block_budget), k_most_blocks));
}

std::int64_t blocks_of_offers(std::int64_t blocks) {
  constexpr int k_ways = 6;  // of Cuts
  return std::min(k_ways * blocks, k_offer_budget);
}

std::int64_t candidates_with_tile_waits(std::int64_t blocks) {
  return std::max<std::int64_t>(1, blocks_with_mechanisms(blocks) / blocks - k_always_priced);
}

std::int64_t blocks_of(Pipeline const& pipeline) {
  std::int64_t blocks = 0;
  for (auto const& stage : pipeline.stages) blocks += stage.blocks();
  return blocks;
}

bool Search::wants(Mechanism mechanism) const {
  return options_.mechanisms.empty() || std::find(options_.mechanisms.begin(), options_.mechanisms.end(),
                                                  mechanism) != options_.mechanisms.end();
}

bool Search::wants_tile_waits() const {
  auto const& asked_for = options_.mechanisms;
  return asked_for.empty() || std::any_of(asked_for.begin(), asked_for.end(), uses_semaphores);
}

void Search::leave_out(std::string description, std::string reason) {
  left_out_.push_back({std::move(description), 0, std::move(reason)});
}

void Search::note_refusal(Recipe const& recipe, Pipeline const& pipeline, Diagnostics const& why) {
  leave_out(recipe_text(recipe, pipeline), "refused: " + why.front().message);
  for (auto const& reason : why)  // most are the same for every policy and every combination of shapes
    if (std::find(refusals_.begin(), refusals_.end(), reason) == refusals_.end()) refusals_.push_back(reason);
}

std::optional<double> Search::price(Plan plan, Recipe const& recipe) {
  if (options_.max_priced > 0 && priced_ >= options_.max_priced && best_stream_) {
    leave_out(describe(plan),
              fmt::format("not priced: {} candidates were, which is the limit asked for", priced_));
    return std::nullopt;
  }
  auto timeline = price_(plan);
  ++priced_;
  blocks_priced_ += blocks_of(plan.pipeline);
  if (!timeline) {
    note_refusal(recipe, plan.pipeline, timeline.error());
    return std::nullopt;
  }
  auto outcome = outcome_of(plan, recipe, *timeline, machine_);
  plan.predicted_us = outcome.us;
  bool const stream = outcome.mechanism == Mechanism::stream_order;
  if (is_stream_order(plan) && (!best_stream_ || outcome.us < best_stream_->us)) best_stream_ = outcome;
  outcomes_.push_back(outcome);
  double const us = outcome.us;
  if (stream && !wants(Mechanism::stream_order)) return us;
  timeline->tiles.clear();
  keep({recipe, std::move(plan), std::move(*timeline), std::move(outcome)});
  return us;
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

bool Search::within_limits(Pipeline const& pipeline) const {
  return blocks_priced_ + blocks_of(pipeline) <= k_most_blocks;
}

bool Search::affords(Pipeline const& pipeline) {
  bool const affordable = priced_ < k_always_priced ||
                          blocks_priced_ + blocks_of(pipeline) <= k_block_budget ||
                          (priced_ < k_least_priced && within_limits(pipeline));
  if (!affordable) ++beyond_budget_;
  return affordable;
}

void Search::offer(Plan plan, Recipe const& recipe) {
  if (known(describe(plan))) return;
  auto const blocks = blocks_of(plan.pipeline);
  if (offered_ + blocks > k_offer_budget && !affords(plan.pipeline)) return;
  offered_ += blocks;
  auto proof = prove_progress(plan, machine_);
  if (!proof) return leave_out(describe(plan), "refused: " + proof.error().front().message);
  plan.proof = std::move(*proof);
  price(std::move(plan), recipe);
}

std::optional<double> Search::attempt(CheckedPipeline const& checked, Recipe const& recipe) {
  if (!affords(checked.pipeline())) return std::nullopt;
  if (auto const waits = waits_of(recipe); waits > k_most_waits) {
    note_refusal(
        recipe, checked.pipeline(),
        {{"E0504",
          Severity::error,
          checked.pipeline().where,
          fmt::format("its blocks wait {} times, more than the {} that can be priced", waits, k_most_waits),
          {},
          "ask for a coarser policy, or larger tiles"}});
    return std::nullopt;
  }
  auto plan = build_plan(checked, machine_, recipe);
  if (!plan) {
    note_refusal(recipe, checked.pipeline(), plan.error());
    return std::nullopt;
  }
  if (recipe.merged_tickets && plan->launches.front().tickets.empty())
    return std::nullopt;  // stage by stage, known already
  return price(std::move(*plan), recipe);
}

std::string Search::no_early_start() const {
  if (std::any_of(outcomes_.begin(), outcomes_.end(), [](Outcome const& one) {
        return one.mechanism != Mechanism::stream_order || one.stages.size() < 2;
      }))
    return "";
  if (options_.mechanisms == std::vector{Mechanism::stream_order}) return "nothing else was asked for";
  if (beyond_budget_ > 0) return "what starts a stage early was not tried, being beyond the search's budget";
  return "nothing that starts a stage early can run";
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
    plans.back().machine_values = planning_values(machine_, plans.back().pipeline);
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
  plan.why = choice_in_words(winner, *best_stream_, next, plan.bound_by, no_early_start());
  return plans;
}

}  // namespace tessera
