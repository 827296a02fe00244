// SPDX-License-Identifier: Apache-2.0
// Recorded pairs as the planner's recipes, and back.
#include "bench/predict/recipes.hpp"

#include <gmock/gmock.h>

#include <sstream>

#include "tessera/measure/machine_json.hpp"
#include "tessera/plan/orders.hpp"

namespace tessera::bench {
namespace {

class Recipes : public testing::Test {
 protected:
  MachineProfile machine = tessera::machine("h200").value();
  MlpShape gpt3{12288, 6144, 1024, false};

  Expected<Plan> planned(std::string const& words, MlpShape const& shape) const {
    std::istringstream in(words);
    Pair pair;
    in >> pair;
    EXPECT_FALSE(in.fail()) << words;
    return plan_of(shape, pair, machine);
  }
};

TEST_F(Recipes, ComeBackAsTheyWere) {
  for (std::string const words : {"stream 128x192x64_2x1 0 1 128x192x64_2x1 8 0 1 0 0",
                                  "pdl 128x192x64_2x1 1 1 256x192x64_2x1 0 1 1 1 1",
                                  "tiles 128x192x64_2x1 4 1 128x256x64_2x1 1 0 0 1 1",
                                  "tiles 128x192x64_2x1 4 0 128x256x64_2x1 4 1 2 1 0"}) {
    auto const plan = planned(words, gpt3);
    ASSERT_TRUE(plan) << to_text(plan.error());
    EXPECT_EQ(words_of(*plan), words);
    EXPECT_FALSE(plan->proof.empty());
  }
}

TEST_F(Recipes, AreWhatAKernelOfTwoHeightsMadeOfOthers) {
  auto const plan = planned("pdl 128x168x64_2x1 4 1 128x168x64_2x1 1 1 1 1 0", gpt3);
  ASSERT_TRUE(plan) << to_text(plan.error());
  EXPECT_EQ(plan->stages[0].order.bands->rows, 8);
  EXPECT_EQ(plan->stages[1].order.bands->rows, 1);
}

TEST_F(Recipes, NeedAKernelOfTheCatalogue) {
  auto const plan = planned("pdl 72x192x64_2x1_swapped 0 1 128x192x64_2x1 0 1 1 0 0", gpt3);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().front().code, "E0305");
  EXPECT_EQ(plan.error().front().message, "the catalogue has no GEMM of shape 72x192x64_2x1_swapped");
}

TEST_F(Recipes, OfOneGemmHaveItsOrder) {
  auto const plan = plan_of(1024, 6144, 12288, {"128x256x64_2x1", 0, true}, machine);
  ASSERT_TRUE(plan) << to_text(plan.error());
  EXPECT_EQ(plan->stages[0].order.name, "columns");
  EXPECT_EQ(plan->stages[0].persistent_blocks, machine.sms);
}

}  // namespace
}  // namespace tessera::bench
