// SPDX-License-Identifier: Apache-2.0
// The paper's attention as separate kernels on a GPU: every stage against plain arithmetic, in stream order
// and by tiles, with weights dropped by a seed.
#include <gmock/gmock.h>

#include <algorithm>

#include "kernels/unfused_attention/unfused_plan.hpp"
#include "kernels/unfused_attention/unfused_run.hpp"
#include "layer_plans/layer_plan.hpp"

namespace tessera::unfused_attention {
namespace {

/// `config`'s attention, `tp` shares.
OperatorGraph attention_of(std::string const& config, std::int64_t tokens, std::int64_t sequences, int tp) {
  BlockOptions options;
  options.block = "attention";
  options.tokens = tokens;
  options.sequences = sequences;
  options.tensor_parallel = tp;
  return graph_of(config, options);
}

Plan plan_in(OperatorGraph const& graph, Mechanism mechanism, bool strided) {
  PlanOptions options;
  options.mechanisms = {mechanism};
  return plan_unfused(graph, machine("h200").value(), options, strided).value();
}

/// Runs each plan three times and compares all stages; all drop the same weights.
void expect_right(OperatorGraph const& graph, std::vector<Plan> const& plans, Dropping const& dropping) {
  auto const operands = Operands::make(graph, dropping, nullptr);
  ASSERT_TRUE(operands) << to_text(operands.error());
  std::vector<unsigned short> kept;
  for (auto const& plan : plans) {
    auto executable = operands->bind(plan);
    ASSERT_TRUE(executable) << to_text(executable.error());
    for (int launch = 0; launch < 3; ++launch) {
      auto const ran = operands->run(*executable, nullptr);
      ASSERT_TRUE(ran) << to_text(ran.error());
    }
    auto const compared = operands->compare(nullptr);
    ASSERT_TRUE(compared) << to_text(compared.error());
    for (auto const& stage : *compared)
      EXPECT_TRUE(stage.right()) << describe(plan) << ", " << stage.stage << ": " << stage.error << " of "
                                 << stage.allowed;
    auto weights = operands->bits("softmax");
    ASSERT_TRUE(weights);
    for (auto& weight : *weights) weight = weight != 0;
    if (kept.empty()) kept = *weights;
    EXPECT_TRUE(*weights == kept) << describe(plan) << ": another mask";
  }
}

TEST(UnfusedAttention, of_a_share_of_gpt_3_in_stream_order_and_by_strides) {
  auto const graph = attention_of(config_of("gpt-3-145b"), 512, 1, 8);
  expect_right(graph,
               {plan_in(graph, Mechanism::stream_order, false), plan_in(graph, Mechanism::pdl_tiles, true),
                plan_in(graph, Mechanism::pdl, false)},
               {});
}

TEST(UnfusedAttention, of_grouped_heads_ragged_prompts_and_several_sequences) {
  // 72 and 200 tokens: no tile of rows or columns is full at the end; heads of 64 fill half a tile.
  for (std::int64_t const tokens : {72, 200}) {
    auto const graph = attention_of(k_small_llama, tokens, 3, 1);
    expect_right(
        graph, {plan_in(graph, Mechanism::stream_order, false), plan_in(graph, Mechanism::pdl_tiles, false)},
        {0.25f, 7});
  }
}

std::vector<unsigned short> weights_of(OperatorGraph const& graph, Plan const& plan,
                                       Dropping const& dropping) {
  auto const operands = Operands::make(graph, dropping, nullptr).value();
  auto executable = operands.bind(plan).value();
  EXPECT_TRUE(operands.run(executable, nullptr));
  return operands.bits("softmax").value();
}

TEST(UnfusedAttention, drops_by_the_seed) {
  auto const graph = attention_of(k_small_llama, 128, 1, 1);
  auto const plan = plan_in(graph, Mechanism::pdl_tiles, false);
  auto const dropped = [](std::vector<unsigned short> const& weights) {
    return static_cast<double>(std::count(weights.begin(), weights.end(), 0)) /
           static_cast<double>(weights.size());
  };
  auto const one = weights_of(graph, plan, {0.1f, 1}), again = weights_of(graph, plan, {0.1f, 1}),
             other = weights_of(graph, plan, {0.1f, 2}), none = weights_of(graph, plan, {0, 1});
  EXPECT_EQ(one, again);
  EXPECT_NE(one, other);
  EXPECT_NEAR(dropped(one), 0.1, 0.01);
  EXPECT_EQ(dropped(none), 0);
}

TEST(UnfusedAttention, a_wrong_number_and_a_wrong_mask_are_found) {
  auto const graph = attention_of(k_small_llama, 128, 1, 1);
  auto const operands = Operands::make(graph, {}, nullptr).value();
  auto executable = operands.bind(plan_in(graph, Mechanism::stream_order, false)).value();
  auto const wrong_after = [&](std::string const& tensor, unsigned short bits) {
    EXPECT_TRUE(operands.run(executable, nullptr));
    cudaMemcpy(operands.tensors.at(tensor).data, &bits, sizeof bits, cudaMemcpyHostToDevice);
    std::vector<std::string> wrong;
    auto const compared = operands.compare(nullptr).value();
    for (auto const& stage : compared)
      if (!stage.right()) wrong.push_back(stage.stage);
    return wrong;
  };
  unsigned short const hundred = 0x42c8;
  EXPECT_THAT(wrong_after("scores", hundred), testing::Contains("scores"));
  EXPECT_THAT(wrong_after("context", hundred), testing::Contains("context"));
  EXPECT_THAT(wrong_after("output", hundred), testing::ElementsAre("output"));
  // The first weight stays, by its number, or is dropped: the other of both is wrong.
  EXPECT_TRUE(operands.run(executable, nullptr));
  auto const kept = operands.bits("softmax").value().front() != 0;
  EXPECT_THAT(wrong_after("softmax", kept ? 0 : 0x3a80), testing::Contains("softmax"));
}

}  // namespace
}  // namespace tessera::unfused_attention
