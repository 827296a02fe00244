// SPDX-License-Identifier: Apache-2.0
// Plans of experts: groups are cut alike, and uneven routing costs what its tiles cost.
#include <gmock/gmock.h>

#include "tessera/describe/workload_json.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/simulate/rank.hpp"

namespace tessera {
namespace {

constexpr char const* k_mixtral =
    R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2})";

Plan planned(std::int64_t tokens, std::vector<std::int64_t> routing) {
  auto const graph =
      import_hf_config(k_mixtral, "mixtral.json", {"experts", tokens, 1, 0, 4, "bf16", std::move(routing)});
  EXPECT_TRUE(graph) << to_text(graph.error());
  auto const plans = rank_by_simulation(*graph, shipped_kernels(), machine("h200").value(), {});
  EXPECT_TRUE(plans) << to_text(plans.error());
  return plans ? plans->front() : Plan{};
}

TEST(GroupedPlans, CutGroupsAlikeAndReadEveryExpertsWeights) {
  auto const plan = planned(64, {});
  ASSERT_EQ(plan.stages.size(), 2U);
  EXPECT_EQ(plan.pipeline.stages[0].grid[1].extent, plan.pipeline.stages[1].grid[1].extent);
  EXPECT_EQ(plan.pipeline.stages[0].grid[1].extent, 8) << "16 rows each: a tile for each expert";
  double const weights = 8.0 * 3 * 4096 * 3584 * 2;
  EXPECT_GT(plan.predicted_us, weights / 4.8e12 * 1e6) << "faster than reading the weights";
}

TEST(GroupedPlans, AnExpertThatGetsMostDecides) {
  // 1024 rows: 128 each, or one expert with all 512 tokens.
  auto const even = planned(512, {});
  auto const uneven = planned(512, {512, 74, 73, 73, 73, 73, 73, 73});
  EXPECT_GT(uneven.predicted_us, even.predicted_us);
  auto const few = planned(512, {512, 512});
  EXPECT_LT(few.predicted_us, even.predicted_us) << "a quarter of the weights";
}

}  // namespace
}  // namespace tessera
