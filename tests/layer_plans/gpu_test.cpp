// SPDX-License-Identifier: Apache-2.0
// Small layers on a GPU, stage by stage against plain arithmetic; and that a wrong number is found.
#include <gmock/gmock.h>

#include <vector>

#include "kernels/bindings/families.hpp"
#include "kernels/plan_check/layer_tune.hpp"
#include "kernels/plan_check/stage_check.hpp"
#include "layer_plans/layer_plan.hpp"

namespace tessera::plan_check {
namespace {

using testing::HasSubstr;

class OnGpu {
 public:
  explicit OnGpu(Plan made, Prompts const& prompts = {}) : plan(std::move(made)) {
    take(buffers.make(plan, nullptr, prompts));
    auto bound = Executable::make(plan, shipped_kernels(), shipped_bindings(), buffers.tensors);
    if (!bound) throw std::runtime_error(to_text(bound.error()));
    executable = std::make_unique<Executable>(std::move(*bound));
  }
  void launch() {
    buffers.poison(nullptr);
    take(executable->launch(nullptr));
    take(executable->finish());
  }
  /// Of all stages, by launch.
  std::vector<std::string> wrong() {
    std::vector<std::string> lines;
    for (int l = 0; l < static_cast<int>(plan.launches.size()); ++l)
      for (int i = 0; i < plan.launches[static_cast<std::size_t>(l)].stages; ++i) {
        auto const compared = compare_stage(plan, l, i, buffers, nullptr);
        if (!compared) throw std::runtime_error(to_text(compared.error()));
        auto const s = static_cast<std::size_t>(plan.launches[static_cast<std::size_t>(l)].first + i);
        if (!compared->right()) lines.push_back(line_of(plan.pipeline.stages[s], "launched", *compared));
      }
    return lines;
  }
  /// Puts a number in place of one of a buffer of bf16.
  void damage(std::string const& buffer, std::int64_t row, std::int64_t column) {
    auto const& tensor = buffers.tensors.at(buffer);
    unsigned short const seven = 0x40e0;
    auto* const at = static_cast<unsigned short*>(tensor.data) + row * tensor.columns + column;
    ASSERT_EQ(cudaMemcpy(at, &seven, sizeof seven, cudaMemcpyHostToDevice), cudaSuccess);
  }

  Plan plan;
  Buffers buffers;
  std::unique_ptr<Executable> executable;

 private:
  static void take(Expected<void> const& outcome) {
    if (!outcome) throw std::runtime_error(to_text(outcome.error()));
  }
};

BlockOptions block(char const* name, std::int64_t tokens, std::int64_t sequences) {
  BlockOptions options;
  options.block = name;
  options.tokens = tokens;
  options.sequences = sequences;
  return options;
}

std::string kernel_of(Plan const& plan, std::string const& stage) {
  return plan.pipeline.stages[static_cast<std::size_t>(find_stage(plan.pipeline, stage))].kernel;
}
std::string changed(std::string text, std::string const& from, std::string const& to) {
  return text.replace(text.find(from), from.size(), to);
}

void expect_right(Plan const& plan, Prompts const& prompts = {}) {
  OnGpu layer(plan, prompts);
  SCOPED_TRACE(plan.pipeline.name + ", " + mechanism_text(plan));
  for (int times = 0; times < 3; ++times) {  // a stream that is stored again is put back each time
    layer.launch();
    EXPECT_THAT(layer.wrong(), testing::IsEmpty());
  }
}

TEST(LayerPlans, LayersOfBothKindsAreRight) {
  for (auto const* config : {k_small_llama, k_small_gpt2})
    for (auto const& [tokens, sequences] : {std::pair{1, 1}, {128, 1}, {300, 3}, {1024, 1}})
      for (bool const early : {false, true}) {
        PlanOptions options;
        options.mechanisms = {Mechanism::stream_order};
        if (early) options.mechanisms.push_back(Mechanism::pdl);
        options.max_priced = 8;
        expect_right(plan_of_block(graph_of(config, block("layer", tokens, sequences)), options));
      }
}

TEST(LayerPlans, AttentionBlocksAreRightUnderAllMechanisms) {
  PlanOptions in_order;
  in_order.mechanisms = {Mechanism::stream_order};
  for (auto const* config : {k_small_llama, k_small_gpt2})
    for (auto const& [tokens, sequences] : {std::pair{200, 3}, {1024, 1}}) {
      auto const graph = graph_of(config, block("fused_attention", tokens, sequences));
      for (auto const& plan :
           {plan_of_block(graph, in_order), early_block(graph, false), early_block(graph, true)})
        expect_right(plan);
    }
}

TEST(LayerPlans, AttentionBlocksThatSeeAllKeysAreRight) {
  for (auto const* config : {k_small_llama, k_small_gpt2})
    for (std::int64_t const tokens : {200, 1024}) {
      auto options = block("fused_attention", tokens, 1);
      options.all_keys = true;
      auto const graph = graph_of(config, options);
      for (auto const& plan : {plan_of_block(graph), early_block(graph, false), early_block(graph, true)})
        expect_right(plan);
    }
}

BlockOptions generation(char const* name, std::int64_t cached, std::int64_t sequences, int share = 1) {
  auto options = block(name, 1, sequences);
  options.cached = cached;
  options.tensor_parallel = share;
  return options;
}

// Grouped queries and none, heads of 64, 96 and 128, queries, keys and values apart and together; the cache
// in one part, in several, and in clusters.
TEST(LayerPlans, OneNewTokenBehindCachedOnesIsRight) {
  PlanOptions in_order;
  in_order.mechanisms = {Mechanism::stream_order};
  auto const of_96 = changed(k_small_llama, "\"head_dim\": 64", "\"head_dim\": 96");
  auto const of_128 = changed(k_small_llama, "\"head_dim\": 64", "\"head_dim\": 128");
  for (auto const& config : {std::string(k_small_llama), std::string(k_small_gpt2), of_96, of_128})
    for (auto const* which : {"fused_attention", "layer"})
      for (auto const& [cached, sequences] :
           {std::pair{1, 1}, {15, 3}, {1024, 1}, {1024, 4}, {777, 17}, {300, 64}}) {
        auto const graph = graph_of(config, generation(which, cached, sequences));
        SCOPED_TRACE(std::to_string(cached) + " cached tokens of " + std::to_string(sequences));
        for (auto const& options : {in_order, PlanOptions{}}) {
          auto const plan = plan_of_block(graph, options);
          EXPECT_EQ(kernel_of(plan, "attention"),
                    "cached_attention_" + std::to_string(graph.attention.head_dim));
          expect_right(plan);
        }
      }
}

// Sequences of unequal lengths, which are device data: one captured graph serves all steps.
TEST(LayerPlans, OneGraphGeneratesAtAllLengths) {
  auto const plan = plan_of_block(graph_of(k_small_llama, generation("fused_attention", 500, 3)));
  OnGpu block(plan);
  auto graph = block.executable->capture();
  ASSERT_TRUE(graph) << to_text(graph.error());
  for (std::vector<int> const& lengths : {std::vector{500, 1, 64}, {0, 499, 250}, {17, 16, 15}}) {
    SCOPED_TRACE(testing::PrintToString(lengths));
    auto const& there = block.buffers.tensors.at("lengths");
    ASSERT_EQ(cudaMemcpy(there.data, lengths.data(), sizeof(int) * lengths.size(), cudaMemcpyHostToDevice),
              cudaSuccess);
    block.buffers.poison(nullptr);
    ASSERT_TRUE(graph->launch(nullptr));
    ASSERT_TRUE(block.executable->finish());
    EXPECT_THAT(block.wrong(), testing::IsEmpty());
  }
}

// Of a sequence without room nothing is read or stored, and its results are no numbers.
TEST(LayerPlans, LengthsBeyondTheCacheAreSeen) {
  for (int const cached : {20, 900}) {
    OnGpu block(plan_of_block(graph_of(k_small_llama, generation("fused_attention", cached, 3))));
    auto const& keys = block.buffers.tensors.at("k_cache");
    auto const& results = block.buffers.tensors.at("attention");
    std::vector<int> const lengths{cached + 1, -1, 5};
    auto const copied = [](Tensor const& from) {
      std::vector<unsigned short> to(elements(from));
      EXPECT_EQ(cudaMemcpy(to.data(), from.data, bytes(from), cudaMemcpyDeviceToHost), cudaSuccess);
      return to;
    };
    ASSERT_EQ(
        cudaMemcpy(block.buffers.tensors.at("lengths").data, lengths.data(), 12, cudaMemcpyHostToDevice),
        cudaSuccess);
    auto const before = copied(keys);
    block.launch();
    auto const after = copied(keys), out = copied(results);
    for (std::size_t i = 0; i < out.size(); ++i) {
      bool const is_number = (out[i] & 0x7f80) != 0x7f80;
      ASSERT_EQ(is_number, i / static_cast<std::size_t>(results.columns) == 2) << cached << ", " << i;
    }
    // Two key heads of the third sequence, a row of 64 each.
    int changed = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (before[i] == after[i]) continue;
      auto const row = i / 64, matrix = row / static_cast<std::size_t>(keys.rows);
      ASSERT_TRUE(matrix >= 4 && row % static_cast<std::size_t>(keys.rows) == 5) << cached << ", " << i;
      ++changed;
    }
    EXPECT_GT(changed, 100);
  }
}

// Block behind block, each of which begins before the one before has ended.
TEST(LayerPlans, ChainedStepsAreRight) {
  PlanOptions options;
  options.chained = true;
  OnGpu block(plan_of_block(graph_of(k_small_llama, generation("fused_attention", 700, 3)), options));
  ASSERT_EQ(block.plan.launches.front().start, LaunchStart::early);
  block.launch();
  for (int again = 0; again < 100; ++again) ASSERT_TRUE(block.executable->launch(nullptr));
  ASSERT_TRUE(block.executable->finish());
  EXPECT_THAT(block.wrong(), testing::IsEmpty());
}

TEST(LayerPlans, FindsAWrongNumberOfACache) {
  auto const plan = plan_of_block(graph_of(k_small_llama, generation("fused_attention", 5, 3)));
  OnGpu block(plan);
  block.launch();
  ASSERT_THAT(block.wrong(), testing::IsEmpty());
  // The new token's value of the second sequence's first key head, where the launch has stored it. It is one
  // of six.
  auto const room = block.buffers.tensors.at("v_cache").rows;
  block.damage("v_cache", 2 * room + 5, 3);
  EXPECT_THAT(block.wrong(), testing::ElementsAre(HasSubstr("attention")));
}

// The library's product, an attention that starts early behind it, and the library's product.
TEST(LayerPlans, AttentionStartsEarlyBehindALibrary) {
  for (std::int64_t const tokens : {200, 1024}) {
    auto const plan = library_block(graph_of(k_small_llama, block("fused_attention", tokens, 1)));
    ASSERT_EQ(plan.pipeline.stages[0].kernel, "cublaslt");
    ASSERT_EQ(plan.launches[1].start, LaunchStart::early);
    expect_right(plan);
  }
}

// Lengths around those of a tile; more prompts than a warp has lanes; under all mechanisms.
TEST(LayerPlans, PromptsOfUnequalLengthAreRight) {
  Prompts many;
  for (std::int64_t i = 0; i < 40; ++i) many.push_back(1 + (53 * i) % 170);
  for (auto const& prompts : {Prompts{300, 1, 128, 511}, {511, 129, 64}, many})
    for (auto const* config : {k_small_llama, k_small_gpt2}) {
      SCOPED_TRACE(testing::PrintToString(prompts));
      auto options = block("layer", 1, 1);
      options.prompts = prompts;
      PlanOptions in_order;
      in_order.mechanisms = {Mechanism::stream_order};
      expect_right(plan_of_block(graph_of(config, options), in_order), prompts);
      options.block = "fused_attention";
      auto const graph = graph_of(config, options);
      for (bool const tiles : {false, true}) expect_right(early_block(graph, tiles), prompts);
    }
}

TEST(LayerPlans, SeveralLayersAreRight) {
  for (auto const* config : {k_small_llama, k_small_gpt2}) {
    auto options = block("layer", 1, 1);
    options.prompts = {200, 57};
    options.layers = 3;
    PlanOptions search;
    search.mechanisms = {Mechanism::stream_order, Mechanism::pdl};
    expect_right(plan_of_block(graph_of(config, options), search), options.prompts);
  }
}

TEST(LayerPlans, AWrongNumberIsFoundByStageRowAndColumn) {
  OnGpu layer(plan_of_block(graph_of(k_small_llama, block("layer", 256, 1))));
  layer.launch();
  ASSERT_THAT(layer.wrong(), testing::IsEmpty());
  layer.damage("attention", 77, 5);
  auto const found = layer.wrong();
  ASSERT_FALSE(found.empty());
  EXPECT_THAT(found.front(), HasSubstr("attention "));
  EXPECT_THAT(found.front(), HasSubstr("row 77, column 5: 7 in place of "));
  layer.launch();
  layer.damage("turn", 9, 130);
  ASSERT_FALSE(layer.wrong().empty());
  EXPECT_THAT(layer.wrong().front(), HasSubstr("turn "));
}

TEST(LayerPlans, TheFastestOfSeveralIsRight) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  for (auto const* which : {"layer", "fused_attention"}) {
    auto const graph = graph_of(k_small_gpt2, block(which, 256, 1));
    TuneOptions options;
    options.quick = true;
    auto const tuned = tune_layer(graph, machine("h200").value(), 1, stream, options);
    ASSERT_TRUE(tuned) << to_text(tuned.error());
    for (auto const& one : tuned->finalists)
      EXPECT_TRUE(one.measurement.right) << one.measurement.candidate << ": " << one.relative_error;
    EXPECT_LE(tuned->winner().measurement.hot_us, 2 * tuned->finalists[tuned->baseline].measurement.hot_us);
  }
}

TEST(LayerPlans, WhatIsNotWrittenIsFound) {
  OnGpu layer(plan_of_block(graph_of(k_small_gpt2, block("layer", 200, 1))));
  layer.buffers.poison(nullptr);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(layer.wrong().size(), layer.plan.pipeline.stages.size() - 1);  // qkv is compared with turn
}

}  // namespace
}  // namespace tessera::plan_check
