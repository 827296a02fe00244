// SPDX-License-Identifier: Apache-2.0
// Plans of the paper's attention as separate kernels, and the header that they become.
#include "kernels/unfused_attention/unfused_plan.hpp"

#include <gmock/gmock.h>

#include "layer_plans/layer_plan.hpp"
#include "tessera/generate/generate.hpp"

namespace tessera::unfused_attention {
namespace {

using testing::HasSubstr;

OperatorGraph gpt3(std::int64_t tokens) {
  BlockOptions options;
  options.block = "attention";
  options.tokens = tokens;
  options.tensor_parallel = 8;
  return graph_of(config_of("gpt-3-145b"), options);
}

TEST(UnfusedPlan, strided_and_tile_sync_as_in_the_paper) {
  PlanOptions options;
  options.mechanisms = {Mechanism::pdl_tiles};
  auto const plan = plan_unfused(gpt3(512), machine("h200").value(), options, true);
  ASSERT_TRUE(plan) << to_text(plan.error());
  int strided = 0;
  for (auto const& planned : plan->dependences) {
    auto const& dependence = plan->pipeline.dependences[static_cast<std::size_t>(planned.dependence)];
    ASSERT_GE(planned.semaphore_set, 0) << planned.dependence;
    auto const& set = plan->semaphores[static_cast<std::size_t>(planned.semaphore_set)];
    EXPECT_EQ(set.policy, dependence.producer == 0 ? "StridedSync" : "TileSync");
    if (dependence.producer == 0) {
      ++strided;
      // Queries, keys and values share one set: columns of a third, times 4 rows of tiles.
      EXPECT_EQ(set.count * 3, plan->pipeline.stages[0].tiles());
    }
  }
  EXPECT_EQ(strided, 3);
  auto const header = generate_header(*plan);
  ASSERT_TRUE(header) << to_text(header.error());
  EXPECT_THAT(*header, HasSubstr("Stride"));
}

TEST(UnfusedPlan, the_planner_starts_early) {
  auto const h200 = machine("h200").value();
  PlanOptions stream;
  stream.mechanisms = {Mechanism::stream_order};
  auto const chosen = plan_unfused(gpt3(512), h200, {}), in_order = plan_unfused(gpt3(512), h200, stream);
  ASSERT_TRUE(chosen && in_order);
  EXPECT_FALSE(is_stream_order(*chosen)) << mechanism_text(*chosen);
  EXPECT_LT(chosen->predicted_us, in_order->predicted_us);
}

TEST(UnfusedPlan, refuses_what_its_kernels_do_not_compute) {
  auto const code_of = [](OperatorGraph const& graph, bool strided = false) {
    auto const plan = plan_unfused(graph, machine("h200").value(), {}, strided);
    return plan ? std::string() : to_text(plan.error());
  };
  auto odd = gpt3(100);
  EXPECT_THAT(code_of(odd),
              HasSubstr("E0906: attention of separate kernels is not launched with prompts of 100"));
  auto fp16 = gpt3(512);
  fp16.type = ElementType::fp16;
  EXPECT_THAT(code_of(fp16), HasSubstr("not launched with fp16"));
  BlockOptions options;
  options.block = "attention";
  options.tokens = 8;
  options.cached = 64;
  EXPECT_THAT(code_of(graph_of(config_of("gpt-3-145b"), options)), HasSubstr("64 cached tokens"));
  options.cached = 0;
  EXPECT_THAT(code_of(graph_of(k_small_llama, options), true), HasSubstr("E0304: no tile shape"));
}

}  // namespace
}  // namespace tessera::unfused_attention
