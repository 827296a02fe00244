// SPDX-License-Identifier: Apache-2.0
// What bindings make of plans of layers, and what they refuse; no GPU is needed for that.
#include <gmock/gmock.h>

#include <set>

#include "kernels/bindings/attention_layout.hpp"
#include "kernels/bindings/cached_attention.hpp"
#include "kernels/bindings/families.hpp"
#include "kernels/plan_check/layer_tune.hpp"
#include "kernels/plan_check/prompts.hpp"
#include "layer_plans/layer_plan.hpp"
#include "tessera/tune/plans.hpp"
#include "tessera/tune/promised.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;

/// Buffers that nobody reads: of the plan's sizes and types, all at one place.
class FakeTensors {
 public:
  explicit FakeTensors(Plan const& plan) {
    for (auto const& buffer : plan.pipeline.buffers) {
      Tensor tensor;
      tensor.data = memory_;
      tensor.rows = buffer.rows, tensor.columns = buffer.columns, tensor.batch = buffer.batch;
      if (buffer.type == "fp32") tensor.type = ElementType::fp32;
      if (buffer.type == "int32") tensor.type = ElementType::int32;
      tensors[buffer.name] = tensor;
    }
  }
  Tensors tensors;

 private:
  alignas(256) unsigned char memory_[256] = {};
};

/// All that is left to fail without a GPU is loading a kernel and asking cuBLASLt.
testing::Matcher<std::string> bound_but_for_a_gpu() {
  return testing::AnyOf(testing::Eq("bound"), HasSubstr("error E0511"), HasSubstr("error E0533"));
}

class LayerBinding : public testing::Test {
 protected:
  /// With launches in stream order and early ones.
  void take(std::string const& config, BlockOptions const& options) {
    PlanOptions search;
    search.mechanisms = {Mechanism::stream_order, Mechanism::pdl};
    search.max_priced = 4;
    take(plan_of_block(graph_of(config, options), search));
  }
  void take(Plan made) {
    plan = std::move(made);
    fake = std::make_unique<FakeTensors>(plan);
  }
  void expect_all_bound() {
    for (auto const& stage : plan.pipeline.stages) {
      SCOPED_TRACE(stage.name + " " + stage.kernel);
      auto const& family = shipped_kernels().find(stage.kernel)->family;
      bool const needs_none = family == "attention_sm90" || family == "norm_rope";
      EXPECT_THAT(outcome(stage.name),
                  needs_none ? testing::Matcher<std::string>("bound") : bound_but_for_a_gpu());
    }
  }
  int launch_of(std::string const& stage) const {
    auto const s = find_stage(plan.pipeline, stage);
    for (std::size_t l = 0; l < plan.launches.size(); ++l)
      if (plan.launches[l].first <= s && s < plan.launches[l].end()) return static_cast<int>(l);
    return -1;
  }
  BindRequest request(std::string const& stage) {
    return {plan, launch_of(stage), shipped_kernels(), fake->tensors, scratch};
  }
  /// "bound", or the refusal.
  std::string outcome(std::string const& stage) {
    auto const asked = request(stage);
    auto const* family = bindings.find(asked.kernel().family);
    if (family == nullptr) return "no binding";
    auto const bound = family->bind(asked);
    return bound ? "bound" : to_text(bound.error());
  }

  Bindings bindings = shipped_bindings();
  Plan plan;
  std::unique_ptr<FakeTensors> fake;
  Scratch scratch;
};

BlockOptions block(char const* name, std::int64_t tokens, std::int64_t sequences = 1, int share = 1) {
  BlockOptions options;
  options.block = name;
  options.tokens = tokens;
  options.sequences = sequences;
  options.tensor_parallel = share;
  return options;
}

TEST_F(LayerBinding, TakesEveryStageOfAllModels) {
  struct Shipped {
    char const* name;
    int share;
  };
  for (auto const& [name, share] : {Shipped{"gpt-3-145b", 8},
                                    {"llama-65b", 8},
                                    {"llama-3.2-1b", 1},
                                    {"llama-3.2-3b", 1},
                                    {"llama-3-8b", 1},
                                    {"llama-3-70b", 8},
                                    {"qwen2.5-0.5b", 1},
                                    {"qwen2.5-7b", 1},
                                    {"qwen2.5-72b", 8},
                                    {"qwen3-0.6b", 1},
                                    {"qwen3-4b", 1},
                                    {"qwen3-8b", 1},
                                    {"gpt2", 1}})
    for (auto const* which : {"fused_attention", "layer"})
      for (std::int64_t const sequences : {1, 3}) {
        SCOPED_TRACE(std::string(name) + " " + which);
        auto const graph = graph_of(config_of(name), block(which, 200, sequences, share));
        // What tessera run takes where nothing is tuned, and what --planned takes.
        take(library_plan(graph, shipped_kernels(), machine("h200").value()).value());
        expect_all_bound();
        take(config_of(name), block(which, 200, sequences, share));
        expect_all_bound();
        auto const attention = attention_call(request("attention"));
        ASSERT_TRUE(attention) << to_text(attention.error());
        auto const& shape = graph.attention;
        EXPECT_EQ(attention->problem.heads, shape.query_heads) << name;
        EXPECT_EQ(attention->problem.key_heads, shape.kv_heads) << name;
        EXPECT_EQ(attention->problem.head_size, shape.head_dim) << name;
        EXPECT_EQ(attention->problem.sequences, sequences) << name;
        EXPECT_EQ(attention->problem.longest_queries, 200) << name;
        EXPECT_TRUE(attention->problem.causal);
      }
}

TEST_F(LayerBinding, TakesAllThatIsTuned) {
  for (auto const* which : {"fused_attention", "layer"})
    for (auto const* config : {k_small_llama, k_small_gpt2}) {
      auto const graph = graph_of(config, block(which, 256));
      ASSERT_TRUE(plan_check::is_layer(graph));
      auto const found = promised_plans(graph, shipped_kernels(), machine("h200").value()).value();
      ASSERT_GT(found.candidates.size(), 8u);
      ASSERT_EQ(found.candidates.size(), found.times.size());
      for (std::size_t i = 0; i < found.candidates.size(); ++i) {
        EXPECT_EQ(found.candidates[i].baseline, i == 0);
        EXPECT_GT(found.times[i], 0);
        take(found.candidates[i].plan);
        expect_all_bound();
      }
    }
  EXPECT_FALSE(plan_check::is_layer(graph_of(k_small_llama, block("mlp", 256))));
}

TEST_F(LayerBinding, TakesTilesThatWaitForTiles) {
  for (bool const tiles : {false, true}) {
    take(early_block(graph_of(k_small_llama, block("fused_attention", 300, 3)), tiles));
    EXPECT_EQ(plan.semaphores.empty(), !tiles);
    expect_all_bound();
  }
}

TEST_F(LayerBinding, FindsHeadsWhereTheyLie) {
  take(k_small_llama, block("fused_attention", 256));
  auto const apart = attention_call(request("attention")).value();
  auto const elements = [](AttentionCall const& call, void const* at) {
    return (static_cast<char const*>(at) - static_cast<char const*>(call.q)) / 2;
  };
  EXPECT_EQ(elements(apart, apart.k), 8 * 64);
  EXPECT_EQ(elements(apart, apart.v), 10 * 64);
  EXPECT_EQ(apart.problem.q.group, 0);
  take(k_small_llama, block("layer", 256));
  auto const together = attention_call(request("attention")).value();
  EXPECT_EQ(elements(together, together.k), 4 * 64);
  EXPECT_EQ(elements(together, together.v), 5 * 64);
  EXPECT_EQ(together.problem.q.group, 6 * 64);
  EXPECT_EQ(together.problem.k.head, 6 * 64);
  EXPECT_EQ(together.problem.k.row, 12 * 64);
}

TEST(CausalSequences, AreCountedFromWhatTilesSee) {
  for (std::int64_t const tokens : {1, 64, 100, 128, 129, 384, 1000, 1024, 4096})
    for (std::int64_t const sequences : {1, 2, 3, 5, 8}) {
      auto const blocks = (tokens + 127) / 128;
      double keys = 0;
      for (std::int64_t b = 1; b <= blocks; ++b) keys += static_cast<double>(std::min(128 * b, tokens));
      EXPECT_EQ(
          causal_sequences(tokens * sequences, blocks * sequences, 128, keys / static_cast<double>(blocks)),
          sequences)
          << tokens;
    }
  EXPECT_EQ(causal_sequences(1024, 8, 128, 400), std::nullopt);   // a window
  EXPECT_EQ(causal_sequences(1024, 8, 128, 1024), std::nullopt);  // all keys
  EXPECT_EQ(causal_sequences(1024, 9, 128, 576), std::nullopt);
}

TEST(AllKeys, AreThoseOfOneSequence) {
  EXPECT_TRUE(sees_all_keys(1024, 8, 128, 1024));
  EXPECT_TRUE(sees_all_keys(1000, 8, 128, 1000));
  EXPECT_FALSE(sees_all_keys(1024, 8, 128, 576)) << "causal";
  EXPECT_FALSE(sees_all_keys(1024, 8, 128, 512)) << "two sequences";
  EXPECT_FALSE(sees_all_keys(100, 1, 128, 100)) << "one tile sees as many behind a causal mask";
  for (std::int64_t const tokens : {129, 500, 1024})  // none is both
    for (std::int64_t sequences = 1; sequences < 6; ++sequences) {
      auto const blocks = (tokens + 127) / 128;
      double keys = 0;
      for (std::int64_t b = 1; b <= blocks; ++b) keys += static_cast<double>(std::min(128 * b, tokens));
      EXPECT_FALSE(
          sees_all_keys(tokens * sequences, blocks * sequences, 128, keys / static_cast<double>(blocks)));
    }
}

TEST_F(LayerBinding, TakesAPromptThatSeesAllKeys) {
  auto options = block("fused_attention", 500);
  options.all_keys = true;
  for (auto const* config : {k_small_llama, k_small_gpt2}) {
    take(config, options);
    EXPECT_EQ(outcome("attention"), "bound");
    auto const call = attention_call(request("attention"));
    ASSERT_TRUE(call) << to_text(call.error());
    EXPECT_FALSE(call->problem.causal);
    EXPECT_EQ(call->problem.sequences, 1);
    take(config, block("fused_attention", 500));
    EXPECT_TRUE(attention_call(request("attention")).value().problem.causal);
  }
  options.sequences = 3;
  take(k_small_llama, options);
  EXPECT_THAT(outcome("attention"), HasSubstr("error E0560: the mask of attention cannot run"));
}

TEST_F(LayerBinding, RefusesCachedKeysAndWindows) {
  auto options = block("fused_attention", 256);
  options.cached = 100;
  take(k_small_llama, options);
  EXPECT_THAT(outcome("attention"),
              HasSubstr("error E0560: cached keys of attention cannot run in kernel attention_64: operand "
                        "\"b_cached\" is in no array with the new ones"));
  std::string windowed = k_small_llama;
  windowed.replace(windowed.find("llama"), 5, "mistral");
  windowed.insert(1, "\"sliding_window\": 300, ");
  take(windowed, block("fused_attention", 1024));
  EXPECT_THAT(outcome("attention"), HasSubstr("error E0560: the mask of attention cannot run"));
  take(windowed, block("fused_attention", 300));
  EXPECT_EQ(outcome("attention"), "bound");
}

// Without a GPU loading the kernels fails, which is the last thing that a binding does.
TEST_F(LayerBinding, TakesOneNewTokenBehindCachedOnes) {
  for (auto const& [name, share] : {std::pair{"gpt-3-145b", 8},
                                    {"llama-65b", 8},
                                    {"llama-3.2-1b", 1},
                                    {"llama-3-70b", 8},
                                    {"qwen3-0.6b", 1},
                                    {"gpt2", 1}})
    for (auto const* which : {"fused_attention", "layer"})
      for (std::int64_t const sequences : {1, 64}) {
        SCOPED_TRACE(std::string(name) + " " + which);
        auto options = block(which, 1, sequences, share);
        options.cached = 1024;
        auto const graph = graph_of(config_of(name), options);
        take(plan_of_block(graph));
        expect_all_bound();
        auto const call = cached_attention_call(request("attention"));
        ASSERT_TRUE(call) << to_text(call.error());
        auto const& shape = graph.attention;
        EXPECT_EQ(call->kv_heads, shape.kv_heads);
        EXPECT_EQ(call->group, shape.query_heads / shape.kv_heads);
        EXPECT_EQ(call->head_size, shape.head_dim);
        EXPECT_EQ(call->batch, sequences);
        EXPECT_EQ(call->cache.capacity, 1025);
        EXPECT_EQ(call->window, 0);
        EXPECT_EQ(call->at.row, (shape.query_heads + 2 * shape.kv_heads) * shape.head_dim);
        bool const together = std::string(which) == "layer";
        EXPECT_EQ(call->at.queries,
                  (shape.query_heads / shape.kv_heads + (together ? 2 : 0)) * shape.head_dim);
        EXPECT_EQ(call->at.value - call->at.key, (together ? 1 : shape.kv_heads) * shape.head_dim);
      }
}

// A model's cache is no longer than its window. A workload's may be.
TEST_F(LayerBinding, ReadsAWindowBehindCachedTokens) {
  std::string windowed = k_small_llama;
  windowed.replace(windowed.find("llama"), 5, "mistral");
  windowed.insert(1, "\"sliding_window\": 300, ");
  auto options = block("fused_attention", 1, 3);
  options.cached = 1024;
  auto graph = graph_of(windowed, options);
  EXPECT_EQ(graph.attention.cached, 299);
  for (auto const& [cached, window] : {std::pair{200, 0}, {299, 0}, {300, 300}, {1024, 300}}) {
    graph.attention.cached = cached;
    take(plan_of_block(graph));
    auto const call = cached_attention_call(request("attention"));
    ASSERT_TRUE(call) << to_text(call.error());
    EXPECT_EQ(call->window, window) << cached;
    EXPECT_EQ(call->cache.capacity, cached + 1);
  }
}

TEST_F(LayerBinding, RefusesOtherCachesAndLengths) {
  auto options = block("fused_attention", 1, 3);
  options.cached = 100;
  auto const again = [&] { take(k_small_llama, options); };
  again();
  fake->tensors["v_cache"].rows = 100;
  fake->tensors["v_cache"].batch = 5;
  EXPECT_THAT(outcome("attention"), HasSubstr("E0561"));
  plan.pipeline.buffers.clear();  // sizes that a plan does not say
  EXPECT_THAT(
      outcome("attention"),
      HasSubstr("error E0560: the cache of attention cannot run in kernel cached_attention_64: it is 5 "
                "matrices of 100 x 64 of bf16"));
  again();
  plan.pipeline.buffers.clear();
  fake->tensors["lengths"].type = ElementType::fp32;
  EXPECT_THAT(
      outcome("attention"),
      HasSubstr("error E0560: lengths of attention cannot run in kernel cached_attention_64: they are 1 "
                "x 3 of fp32"));
}

TEST_F(LayerBinding, RefusesOddAddresses) {
  auto options = block("fused_attention", 1, 3);
  options.cached = 100;
  for (char const* buffer : {"k_cache", "v_cache", "attention"}) {
    take(k_small_llama, options);
    auto& tensor = fake->tensors[buffer];
    tensor.data = static_cast<char*>(tensor.data) + 2;
    EXPECT_THAT(outcome("attention"), HasSubstr("give tensors that begin at multiples of 16 bytes"))
        << buffer;
  }
}

TEST_F(LayerBinding, RefusesWeightsThatThePlanMakes) {
  auto options = block("fused_attention", 1, 3);
  options.cached = 100;
  take(k_small_llama, options);
  for (auto& dependence : plan.pipeline.dependences)
    if (dependence.consumer == find_stage(plan.pipeline, "output")) dependence.operand = "b";
  EXPECT_THAT(outcome("output"),
              HasSubstr("operand \"b\" of output cannot run in kernel skinny_gemm_16: it is "
                        "read early, and attention makes it"));
}

// The cache is read while the launch before runs, which must not let this begin before a repetition's has
// stored.
TEST_F(LayerBinding, ReadsACacheEarlyBehindWhatWaitsForIt) {
  auto options = block("fused_attention", 1, 3);
  options.cached = 100;
  PlanOptions chained;
  chained.chained = true;
  take(plan_of_block(graph_of(k_small_llama, options), chained));
  ASSERT_EQ(plan.launches.front().start, LaunchStart::early);
  EXPECT_THAT(outcome("attention"), bound_but_for_a_gpu());
  plan.pipeline.stages.front().kernel = "gemm_64x128x64_1x1";
  EXPECT_THAT(outcome("attention"), HasSubstr("a first launch that starts early of attention cannot run"));
  options.block = "layer";
  take(plan_of_block(graph_of(k_small_llama, options), chained));
  ASSERT_EQ(plan.launches.front().start, LaunchStart::early);
  EXPECT_THAT(outcome("attention"), HasSubstr("a first launch that starts early of attention cannot run"));
}

TEST_F(LayerBinding, RefusesProductsOfFewRows) {
  auto options = block("layer", 1, 3);
  options.cached = 100;
  auto const again = [&] {
    take(k_small_llama, options);
    plan.pipeline.buffers.clear();
  };
  again();
  auto const s = static_cast<std::size_t>(find_stage(plan.pipeline, "output"));
  plan.stages[s].variant = "48x3x2x4";
  EXPECT_THAT(outcome("output"), HasSubstr("it has no cut \"48x3x2x4\" of this product"));
  again();
  fake->tensors["w_qkv"].columns = 500;
  EXPECT_THAT(outcome("qkv"),
              HasSubstr("error E0560: operands of qkv cannot run in kernel skinny_gemm_16: 3 x "
                        "512 and 768 x 500 make no 3 x 768 of bf16"));
  again();
  fake->tensors["x"].columns = 500;
  EXPECT_THAT(outcome("output"), HasSubstr("error E0560: residual of output cannot run"));
  again();
  fake->tensors["attention_norm"].data = static_cast<char*>(fake->tensors["attention_norm"].data) + 2;
  EXPECT_THAT(outcome("qkv"), HasSubstr("addresses are no multiples of 16 bytes"));
}

TEST_F(LayerBinding, TakesPromptsOfUnequalLength) {
  for (auto const* which : {"fused_attention", "layer"})
    for (auto const* config : {k_small_llama, k_small_gpt2}) {
      auto options = block(which, 1);
      options.prompts = {200, 1, 384, 129};
      auto const graph = graph_of(config, options);
      take(library_plan(graph, shipped_kernels(), machine("h200").value()).value());
      expect_all_bound();
      take(config, options);
      expect_all_bound();
      auto const call = attention_call(request("attention"));
      ASSERT_TRUE(call) << to_text(call.error());
      EXPECT_EQ(call->problem.sequences, 4);
      EXPECT_EQ(call->problem.query_rows, 714);
      EXPECT_TRUE(call->problem.causal);
      EXPECT_EQ(call->problem.query_offsets, fake->tensors["offsets"].data);
      EXPECT_EQ(call->packed_blocks, 2 + 1 + 3 + 2);
      EXPECT_EQ(plan_check::prompts_of(graph), options.prompts);
      EXPECT_TRUE(plan_check::check_prompts(plan, options.prompts));
    }
  fake->tensors["offsets"].type = ElementType::fp32;
  EXPECT_THAT(outcome("attention"), HasSubstr("error E0561"));
}

TEST_F(LayerBinding, RefusesPositionsThatAreNotOfEachRow) {
  auto options = block("layer", 1);
  options.prompts = {200, 1, 384, 129};
  take(k_small_llama, options);
  EXPECT_EQ(outcome("turn"), "bound");
  fake->tensors["positions"].columns = 713;
  EXPECT_THAT(outcome("turn"), HasSubstr("error E0561"));
  for (auto& buffer : plan.pipeline.buffers)
    if (buffer.name == "positions") buffer.columns = 713;
  EXPECT_THAT(outcome("turn"), HasSubstr("error E0560: positions of turn cannot run"));
}

TEST(Prompts, SayWhereEachBegins) {
  EXPECT_EQ(plan_check::offsets_of({3, 1, 2}), (std::vector<std::int32_t>{0, 3, 4, 6}));
  EXPECT_EQ(plan_check::positions_of({3, 1, 2}), (std::vector<std::int32_t>{0, 1, 2, 0, 0, 1}));
}

// How long prompts are is said beside a plan: what it has no tiles for is found.
TEST(Prompts, AreThoseOfThePlan) {
  auto options = block("fused_attention", 1);
  options.prompts = {200, 1, 384, 129};
  auto const plan = early_block(graph_of(k_small_llama, options), true);
  auto const said = [](Plan const& of, plan_check::Prompts const& prompts) {
    auto const fine = plan_check::check_prompts(of, prompts);
    return fine ? "accepted" : to_text(fine.error());
  };
  EXPECT_EQ(said(plan, {200, 1, 384, 129}), "accepted");
  EXPECT_EQ(said(plan, {199, 2, 384, 129}), "accepted");  // the same tiles, which wait for all of these rows
  EXPECT_THAT(said(plan, {}),
              HasSubstr("E0563: attention has 4 prompts of unequal length, and a plan does not "
                        "say how long they are"));
  EXPECT_THAT(said(plan, {200, 1, 384}), HasSubstr("is planned for 4 prompts of 714 tokens together in 8 "
                                                   "tiles, and not for 3 of 585 in 6"));
  EXPECT_THAT(said(plan, {200, 1, 385, 128}), HasSubstr("E0563"));
  EXPECT_THAT(said(plan, {384, 200, 1, 129}),
              HasSubstr("does not wait for all rows that it would read of qkv"));
  EXPECT_THAT(said(plan, {0, 1, 584, 129}), HasSubstr("a prompt has 0 tokens"));
  EXPECT_THAT(said(early_block(graph_of(k_small_llama, block("fused_attention", 256)), true), {256}),
              HasSubstr("no attention over prompts of unequal length"));
}

TEST_F(LayerBinding, RefusesHeadsThatAreNotTurnedWhereTheyAre) {
  take(k_small_llama, block("layer", 256));
  alignas(256) unsigned char elsewhere[256];
  fake->tensors["turn"].data = elsewhere;
  EXPECT_THAT(outcome("turn"), HasSubstr("error E0560: the output of turn cannot run in kernel "
                                         "turn_heads_64: it turns heads of bf16 where they are"));
}

TEST_F(LayerBinding, RefusesNumbersOfOtherSizes) {
  take(k_small_gpt2, block("layer", 256));
  fake->tensors["shift_attention_norm"].type = ElementType::bf16;
  EXPECT_THAT(outcome("attention_norm"), HasSubstr("error E0561"));
  fake->tensors["output"].type = ElementType::bf16;
  EXPECT_THAT(outcome("output"), HasSubstr("error E0561"));
}

TEST_F(LayerBinding, RefusesLaunchesBesideOthersByStage) {
  take(k_small_llama, block("layer", 256));
  for (auto const* stage : {"turn", "mlp_norm"}) {
    auto& launch = plan.launches[static_cast<std::size_t>(launch_of(stage))];
    auto const planned = launch.start;
    launch.start = LaunchStart::beside;
    EXPECT_THAT(outcome(stage),
                HasSubstr(std::string("error E0560: a launch beside others of ") + stage + " cannot run"));
    launch.start = planned;
    EXPECT_EQ(outcome(stage), "bound");
  }
  plan.launches[static_cast<std::size_t>(launch_of("output"))].start = LaunchStart::early;
  EXPECT_THAT(outcome("output"),
              HasSubstr("error E0560: the launch of output cannot run in kernel cublaslt"));
}

}  // namespace
}  // namespace tessera
