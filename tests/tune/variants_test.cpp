// SPDX-License-Identifier: Apache-2.0
// Variants of launches, one after the other, by a stopwatch that knows what each takes.
#include "tessera/tune/variants.hpp"

#include <gmock/gmock.h>

#include <map>

namespace tessera {
namespace {

/// Stages named by their kernels, a launch each.
Plan plan_of(std::vector<std::string> const& kernels) {
  Plan plan;
  for (std::size_t s = 0; s < kernels.size(); ++s) {
    Stage stage;
    stage.name = "s" + std::to_string(s);
    stage.kernel = kernels[s];
    plan.pipeline.stages.push_back(stage);
    plan.stages.emplace_back();
    Launch launch;
    launch.first = static_cast<int>(s);
    plan.launches.push_back(launch);
  }
  return plan;
}
std::vector<std::string> variants_of(Plan const& plan) {
  std::vector<std::string> all;
  for (auto const& stage : plan.stages) all.push_back(stage.variant);
  return all;
}
tl::unexpected<Diagnostics> cannot_run() { return tl::make_unexpected(Diagnostics(1)); }

struct Variants : testing::Test {
  std::map<int, std::vector<std::string>> words;
  std::vector<std::string> measured;

  std::vector<std::string> fastest(Plan plan, std::map<std::string, double> const& us) {
    return variants_of(with_fastest_variants(
        std::move(plan), [&](Plan const&, int launch) { return words[launch]; },
        [&](Plan const& one) -> Expected<double> {
          std::string name;
          for (auto const& variant : variants_of(one)) name += variant + "|";
          measured.push_back(name);
          auto const found = us.find(name);
          if (found == us.end()) return cannot_run();
          return found->second;
        }));
  }
};

// The second launch is measured with what was found of the first: "b|y|" is fast, and is never seen.
TEST_F(Variants, OneLaunchAfterTheOther) {
  words = {{0, {"a", "b"}}, {2, {"x", "y"}}};
  EXPECT_THAT(
      fastest(plan_of({"k", "l", "m"}), {{"a|||", 3}, {"b|||", 4}, {"a||x|", 3}, {"a||y|", 2}, {"b||y|", 1}}),
      testing::ElementsAre("a", "", "y"));
  EXPECT_THAT(measured, testing::ElementsAre("a|||", "b|||", "a||x|", "a||y|"));
}

TEST_F(Variants, WhatCannotRunIsLeftAsItIs) {
  words = {{0, {"a", "b"}}, {1, {"x", "y"}}};
  auto plan = plan_of({"k", "l"});
  plan.stages[0].variant = "kept";
  EXPECT_THAT(fastest(plan, {{"kept|y|", 5}}), testing::ElementsAre("kept", "y"));
}

TEST_F(Variants, AreTakenWhereTheSameKernelIs) {
  auto from = plan_of({"k", "l", "m"}), to = plan_of({"k", "other", "m"});
  from.stages[0].variant = "a", from.stages[1].variant = "b", from.stages[2].variant = "c";
  to.stages[2].variant = "own";
  take_variants(to, from);
  EXPECT_THAT(variants_of(to), testing::ElementsAre("a", "", "own"));
}

}  // namespace
}  // namespace tessera
