// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "check/brute_force.hpp"
#include "check/count.hpp"
#include "support/random_pipeline.hpp"

namespace tessera {
namespace {

using check_detail::count_dependence;

bool holds(char const* name, std::function<void()> property) { return rc::check(name, std::move(property)); }

TEST(Counting, FactsOfValidPipelinesEqualBruteForce) {
  EXPECT_TRUE(holds("facts", [] {
    auto const pipeline = *random::pipelines();
    auto const checked = check(pipeline);
    if (!checked) RC_FAIL(to_text(checked.error()));
    RC_ASSERT(checked->facts().size() == pipeline.dependences.size());
    for (std::size_t i = 0; i < pipeline.dependences.size(); ++i)
      RC_ASSERT(checked->facts()[i] == brute_force::facts(pipeline, pipeline.dependences[i]));
  }));
}

TEST(Counting, RefusesExactlyWhatLeavesTheGridAndNamesTheFirstPair) {
  EXPECT_TRUE(holds("bounds", [] {
    auto const pipeline = *random::pipelines({.valid = false});
    bool expect_refusal = false;
    for (auto const& dependence : pipeline.dependences) {
      std::int64_t steps = 0;
      auto const producer = static_cast<std::size_t>(dependence.producer);
      std::vector<bool> read(static_cast<std::size_t>(pipeline.stages[producer].tiles()));
      auto const count = count_dependence(pipeline, dependence, steps, read);
      RC_ASSERT(count.has_value());
      RC_ASSERT(count->facts == brute_force::facts(pipeline, dependence));

      auto const expected = brute_force::outside(pipeline, dependence);
      RC_ASSERT(count->first_outside.has_value() == expected.has_value());
      if (!expected) continue;
      expect_refusal = true;
      RC_ASSERT(count->first_outside->consumer_tile == expected->consumer_tile);
      auto point = expected->producer;
      std::reverse(point.begin(), point.end());
      RC_ASSERT(count->first_outside->producer == point);
    }
    auto const checked = check(pipeline);
    bool refused = false;
    if (!checked)
      for (auto const& finding : checked.error()) refused = refused || finding.code == "E0103";
    RC_ASSERT(refused == expect_refusal);
    RC_TAG(refused);
  }));
}

}  // namespace
}  // namespace tessera
