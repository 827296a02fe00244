// SPDX-License-Identifier: Apache-2.0
// Chains that are cut into groups of launches: against everything there is on small chains, and how long it
// takes.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "support/plans.hpp"
#include "support/stopwatch.hpp"
#include "tessera/check/check.hpp"
#include "tessera/plan/build.hpp"
#include "tessera/plan/choose.hpp"
#include "tessera/plan/parts.hpp"
#include "tessera/plan/progress.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

using support::make_stage;

/// A machine with costs at every boundary, so that how launches follow each other matters.
MachineProfile costly(int sms) {
  auto m = support::ideal_machine(sms);
  m.name = "costly";
  m.launch_ns = 2000;
  m.stream_gap_ns = 900;
  m.pdl_gap_ns = 300;
  m.pdl_grid_wait_ns = 700;
  m.trigger_ns = 50;
  m.block_start_ns = 200;
  m.stream_start_ns = 1200;
  m.post_ns = 300;
  m.wait_ns = 500;
  m.ticket_ns = 250;
  return m;
}

struct Link {
  int columns, rows;
  double us;
  bool by_tile;  ///< reads the tile at its own place; else a whole row
};

/// Each stage reads the one before.
Pipeline chain(std::vector<Link> const& links) {
  Pipeline p;
  p.name = "chain";
  for (std::size_t i = 0; i < links.size(); ++i) {
    auto const stage = static_cast<int>(i);
    p.stages.push_back(make_stage("s" + std::to_string(i), links[i].columns, links[i].rows, links[i].us));
    if (i == 0) continue;
    p.stages.back().operands = {{"a", p.stages[i - 1].name, 0, 0}};
    p.dependences.push_back(links[i].by_tile ? support::tile_dependence(stage, stage - 1)
                                             : support::row_dependence(p, stage, stage - 1));
  }
  return p;
}

Expected<Timeline> simulated(Plan const& plan, MachineProfile const& machine) {
  return simulate(plan, machine, {false});
}

Plan chosen(Pipeline const& pipeline, MachineProfile const& machine, PlanOptions const& options = {}) {
  auto const checked = check(pipeline);
  EXPECT_TRUE(checked) << to_text(checked.error());
  auto plan = choose(
      *checked, machine, [&](Plan const& candidate) { return simulated(candidate, machine); }, options);
  EXPECT_TRUE(plan) << to_text(plan.error());
  return *plan;
}

/// The best of every way to cut a chain, every start of every part, and every mechanism, policy and order in
/// it.
double best_of_all(Pipeline const& whole, MachineProfile const& machine) {
  int const stages = static_cast<int>(whole.stages.size());
  struct Option {
    Plan plan;
    bool streams;
  };
  std::vector<std::vector<std::vector<Option>>> options(static_cast<std::size_t>(stages));
  for (int first = 0; first < stages; ++first)
    for (int end = first + 1; end <= stages; ++end) {
      auto& list = options[static_cast<std::size_t>(first)].emplace_back();
      auto const checked = check(part_of(whole, first, end).pipeline);
      if (!checked) continue;
      std::vector<std::vector<Policy>> families{{}};
      auto const dependences = static_cast<int>(checked->pipeline().dependences.size());
      for (int d = 0; d < dependences; ++d) {
        std::vector<std::vector<Policy>> longer;
        for (auto const& family : families)
          for (auto const& policy : generate_policies(checked->pipeline(), d)) {
            longer.push_back(family);
            longer.back().push_back(policy);
          }
        families = std::move(longer);
      }
      for (auto const mechanism :
           {Mechanism::stream_order, Mechanism::wait_kernel, Mechanism::pdl_tiles, Mechanism::fused})
        for (auto const& family : families)
          for (bool const as_needed : {false, true})
            for (bool const merged : {false, true}) {
              if ((mechanism == Mechanism::stream_order) != (end - first == 1)) continue;
              if (merged && mechanism != Mechanism::fused) continue;
              Recipe recipe;
              recipe.mechanism = mechanism;
              recipe.policies = family;
              recipe.as_needed_order = as_needed;
              recipe.merged_tickets = merged;
              if (auto plan = build_plan(*checked, machine, recipe))
                list.push_back({std::move(*plan), mechanism == Mechanism::wait_kernel});
            }
    }
  double best = 1e18;
  std::vector<PlannedPart> parts;
  std::function<void(int, bool)> const extend = [&](int first, bool after_streams) {
    if (first == stages) {
      auto const plan = join(whole, {}, parts);
      if (!prove_progress(plan, machine)) return;
      if (auto const timeline = simulated(plan, machine))
        best = std::min(best, static_cast<double>(timeline->end) * 1e-6);
      return;
    }
    for (int end = first + 1; end <= stages; ++end)
      for (auto const& option :
           options[static_cast<std::size_t>(first)][static_cast<std::size_t>(end - first) - 1])
        for (auto const start : {LaunchStart::in_order, LaunchStart::early}) {
          if (start == LaunchStart::early && (first == 0 || option.streams || after_streams)) continue;
          parts.push_back({option.plan, start});
          extend(end, option.streams);
          parts.pop_back();
        }
  };
  extend(0, false);
  return best;
}

TEST(Cuts, ChosenPlanIsWithinOnePercentOfEverythingThereIs) {
  auto const machine = costly(4);
  std::vector<std::vector<Link>> const chains = {
      {{4, 1, 2, false}, {4, 1, 2, true}, {4, 1, 2, false}},
      {{3, 2, 5, false}, {3, 2, 5, false}, {1, 1, 20, false}},
      {{2, 3, 3, false}, {2, 3, 3, true}, {5, 3, 1, false}},
      {{1, 1, 8, false}, {6, 1, 4, false}, {6, 1, 4, true}},
      {{5, 1, 6, false}, {5, 1, 1, true}, {5, 1, 1, true}},
      {{3, 3, 4, false}, {4, 3, 4, false}, {3, 3, 4, false}},
  };
  int mixed = 0;
  for (auto const& links : chains) {
    auto const pipeline = chain(links);
    auto const plan = chosen(pipeline, machine);
    auto const best = best_of_all(pipeline, machine);
    EXPECT_LE(plan.predicted_us, 1.01 * best) << mechanism_text(plan);
    EXPECT_GE(plan.predicted_us, 0.999999 * best)
        << "what was tried is not everything: " << mechanism_text(plan);
    mixed += mechanism_of(plan).has_value() ? 0 : 1;
  }
  EXPECT_GE(mixed, 1);  // so that cuts are among what is tested
}

TEST(Cuts, AMixtureIsChosenWhereItPays) {
  // Two short stages that fuse well, and a long one whose tiles fill the machine: nothing uniform suits both.
  auto const machine = costly(4);
  auto const plan = chosen(
      chain({{4, 1, 1, false}, {4, 1, 1, true}, {1, 1, 30, false}, {8, 1, 10, false}, {8, 1, 10, true}}),
      machine);
  EXPECT_FALSE(mechanism_of(plan)) << mechanism_text(plan);
  EXPECT_FALSE(plan.proof.empty());
  EXPECT_LT(plan.predicted_us, plan.stream_order_us);
}

TEST(Cuts, OnlyWhatWasAskedFor) {
  auto const machine = costly(4);
  PlanOptions options;
  options.mechanisms = {Mechanism::fused};
  auto const plan = chosen(chain({{4, 1, 1, false}, {4, 1, 1, true}, {4, 1, 1, true}}), machine, options);
  EXPECT_EQ(mechanism_of(plan), Mechanism::fused);
  options.mechanisms = {Mechanism::stream_order, Mechanism::pdl};
  auto const chains = chosen(chain({{4, 1, 1, false}, {4, 1, 1, true}, {4, 1, 1, true}}), machine, options);
  for (auto const& launch : chains.launches) EXPECT_EQ(launch.workers, 0);
  EXPECT_TRUE(chains.semaphores.empty());
}

// The bounds of the promise are 5 and 10 s for a release build on one core; sanitizers are slower.
TEST(Cuts, LongChainsArePlannedInSeconds) {
  auto const machine = costly(132);
  std::vector<Link> eight, hundred;
  for (int i = 0; i < 8; ++i) eight.push_back({24 + 16 * (i / 2), 8, 3.0 + i, i % 2 == 1});
  for (int i = 0; i < 100; ++i) hundred.push_back({i % 5 == 3 ? 48 : 24, 4, 2.0 + i % 5, false});
  EXPECT_LT(support::least_seconds(50, [&] { (void)chosen(chain(eight), machine); }), 50);
  EXPECT_LT(support::least_seconds(100, [&] { (void)chosen(chain(hundred), machine); }), 100);
}

}  // namespace
}  // namespace tessera
