// SPDX-License-Identifier: Apache-2.0
// Recorded pairs as plans.
#include "bench/predict/recipes.hpp"

#include <gmock/gmock.h>

#include "tessera/measure/machine_json.hpp"
#include "tessera/plan/recipe_json.hpp"
#include "tessera/shipped_kernels.hpp"

namespace tessera::bench {
namespace {

TEST(Recipes, OfAnMlpAreOfItsTwoProducts) {
  auto const graph = mlp_graph({8192, 2752, 512, true});
  ASSERT_EQ(graph.operators.size(), 2u);
  EXPECT_EQ(graph.operators[0].n, 5504);
  EXPECT_EQ(graph.operators[0].epilogue, Epilogue::swiglu);
  EXPECT_EQ(graph.operators[1].k, 2752);
}

TEST(Recipes, PriceCutlassAsOurOwnTiles) {
  auto const machine = tessera::machine("h200").value();
  auto const plan_of = [&](std::string const& kernel, std::string const& other) {
    auto const recipe = parse_recipe(R"({"mechanism": "pdl", "stages": [{"kernel": ")" + kernel +
                                         R"(", "band": 0, "persistent_blocks": 132}, {"kernel": ")" + other +
                                         R"(", "band": 1, "persistent_blocks": 0}]})",
                                     "recipe");
    EXPECT_TRUE(recipe);
    return build_plan(mlp_graph({12288, 6144, 1024, false}), priced(*recipe), shipped_kernels(), machine);
  };
  auto const plan = plan_of("cutlass_128x192x64_2x1", "gemm_128x256x64_2x1");
  ASSERT_TRUE(plan) << to_text(plan.error());
  EXPECT_EQ(plan->pipeline.stages[0].kernel, "gemm_128x192x64_2x1");
  EXPECT_EQ(plan->stages[0].order.name, "columns");
  EXPECT_EQ(plan->stages[0].persistent_blocks, machine.sms);
  EXPECT_FALSE(plan_of("cutlass_stream_k", "gemm_128x256x64_2x1"));
}

TEST(Recipes, OfOneGemmAreOfOneStage) {
  auto const recipe = parse_recipe(
      R"({"mechanism": "stream_order", "stages": [{"kernel": "gemm_128x256x64_2x1", "band": 0}]})", "");
  auto const plan =
      build_plan(gemm_graph(1024, 6144, 12288), *recipe, shipped_kernels(), tessera::machine("h200").value());
  ASSERT_TRUE(plan) << to_text(plan.error());
  EXPECT_EQ(plan->stages.size(), 1u);
  EXPECT_EQ(plan->pipeline.stages[0].blocks(), 8 * 24);
}

}  // namespace
}  // namespace tessera::bench
