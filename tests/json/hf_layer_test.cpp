// SPDX-License-Identifier: Apache-2.0
// Whole layers of models: sizes of every shipped model, and the bytes and operations of one, worked out by
// hand.
#include <gmock/gmock.h>

#include <fstream>
#include <numeric>
#include <set>
#include <sstream>
#include <tuple>

#include "tessera/describe/workload_json.hpp"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string shipped(std::string const& name) {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/workloads/" + name + ".json");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

OperatorGraph layer_of(std::string const& name, std::int64_t tokens, std::int64_t sequences, int parallel) {
  auto graph = import_hf_config(shipped(name), name + ".json", {"layer", tokens, sequences, 0, parallel, ""});
  EXPECT_TRUE(graph) << to_text(graph.error());
  return graph ? *graph : OperatorGraph{};
}

std::vector<std::string> sizes(OperatorGraph const& graph) {
  std::vector<std::string> out;
  for (auto const& op : graph.operators) {
    std::ostringstream text;
    text << op.name << " " << op.m << "x" << op.n << "x" << op.k;
    if (op.epilogue != Epilogue::none) text << " " << to_text(op.epilogue);
    out.push_back(text.str());
  }
  return out;
}

std::vector<std::string> inputs(Operator const& op) {
  std::vector<std::string> out;
  for (auto const& input : op.inputs)
    out.push_back(input.name + (input.producer.empty() ? " " + input.buffer : " of " + input.producer));
  return out;
}

// Hidden size, query heads and key heads of a share, size of a head, inner features of a share.
TEST(HfLayer, SizesOfEveryShippedModel) {
  struct Model {
    char const* name;
    int parallel;
    std::int64_t hidden, heads, kv_heads, head_dim, inner;
  };
  for (auto const& m :
       {Model{"gpt-3-145b", 8, 12288, 12, 12, 128, 6144}, Model{"llama-65b", 8, 8192, 8, 8, 128, 2752},
        Model{"llama-65b", 1, 8192, 64, 64, 128, 22016}, Model{"llama-3.2-1b", 1, 2048, 32, 8, 64, 8192},
        Model{"llama-3.2-3b", 2, 3072, 12, 4, 128, 4096}, Model{"llama-3-8b", 1, 4096, 32, 8, 128, 14336},
        Model{"llama-3-70b", 8, 8192, 8, 1, 128, 3584}, Model{"llama-3-70b", 16, 8192, 4, 1, 128, 1792},
        Model{"qwen2.5-0.5b", 1, 896, 14, 2, 64, 4864}, Model{"qwen2.5-7b", 4, 3584, 7, 1, 128, 4736},
        Model{"qwen2.5-72b", 8, 8192, 8, 1, 128, 3696}, Model{"qwen3-0.6b", 1, 1024, 16, 8, 128, 3072},
        Model{"qwen3-4b", 1, 2560, 32, 8, 128, 9728}, Model{"qwen3-8b", 2, 4096, 16, 4, 128, 6144},
        Model{"gpt2", 1, 768, 12, 12, 64, 3072}}) {
    SCOPED_TRACE(m.name);
    bool const gpt = std::string(m.name).substr(0, 3) == "gpt",
               qwen2 = std::string(m.name).substr(0, 5) == "qwen2";
    auto const graph = layer_of(m.name, 1000, 3, m.parallel);
    auto const text = [](char const* name, std::int64_t n, std::int64_t k, char const* epilogue = "") {
      return std::string(name) + " 3000x" + std::to_string(n) + "x" + std::to_string(k) + epilogue;
    };
    auto const width = m.heads * m.head_dim, qkv = width + 2 * m.kv_heads * m.head_dim;
    EXPECT_THAT(sizes(graph),
                ElementsAre(text("attention_norm", m.hidden, 1), text("qkv", qkv, m.hidden),
                            text("turn", qkv, m.head_dim), text("attention", width, m.head_dim),
                            text("output", m.hidden, width, " residual"), text("mlp_norm", m.hidden, 1),
                            gpt ? text("up", m.inner, m.hidden, " gelu")
                                : text("gate_up", 2 * m.inner, m.hidden, " swiglu"),
                            text("down", m.hidden, m.inner, " residual")));
    ASSERT_EQ(graph.operators.size(), 8u);
    AttentionShape expected{3, 1000, 0, m.heads, m.kv_heads, m.head_dim};
    expected.causal = true;
    EXPECT_EQ(graph.attention, expected);
    EXPECT_EQ(graph.type, ElementType::bf16);
    // GPT has biases and learned positions, Qwen 2.5 biases of queries, keys and values.
    if (gpt) {
      EXPECT_THAT(inputs(graph.operators[0]), ElementsAre("a x", "shift shift_attention_norm"));
      EXPECT_THAT(inputs(graph.operators[2]), ElementsAre("a of qkv", "shift shift_qkv"));
      EXPECT_THAT(inputs(graph.operators[5]), ElementsAre("a of output", "shift shift_mlp_norm"));
    } else {
      EXPECT_THAT(inputs(graph.operators[0]), ElementsAre("a x"));
      EXPECT_EQ(inputs(graph.operators[2]).size(), qwen2 ? 3u : 2u);
      EXPECT_EQ(inputs(graph.operators[2])[1], "turns turns");
      EXPECT_THAT(inputs(graph.operators[5]), ElementsAre("a of output"));
    }
    EXPECT_THAT(inputs(graph.operators[1]), ElementsAre("a of attention_norm", "b w_qkv"));
    EXPECT_THAT(inputs(graph.operators[3]), ElementsAre("a of turn", "b of turn", "c of turn"));
    EXPECT_THAT(inputs(graph.operators[4]), ElementsAre("a of attention", "b w_output", "residual x"));
    EXPECT_THAT(inputs(graph.operators[7]),
                ElementsAre(gpt ? "a of up" : "a of gate_up", "b w_down", "residual of output"));
    auto const again = parse_workload(print_workload(graph), "again.json");
    ASSERT_TRUE(again) << to_text(again.error());
    auto got = std::get<OperatorGraph>(*again);
    for (std::size_t i = 0; i < got.operators.size(); ++i) got.operators[i].where = graph.operators[i].where;
    got.where = graph.where;
    EXPECT_EQ(got, graph);
  }
}

TEST(HfLayer, BytesAndOperationsOfLlama3By1024Tokens) {
  auto const graph = layer_of("llama-3-8b", 1024, 1, 1);
  std::vector<TileChoice> choices;
  for (auto const& op : graph.operators) {
    TileChoice choice;
    auto& kernel = choice.kernel;
    kernel.name = "k";
    kernel.kind = op.kind;
    kernel.tile_m = kernel.tile_n = 128, kernel.tile_k = 64;
    if (op.kind == OperatorKind::norm) kernel.tile_m = 1, kernel.tile_n = 4096, kernel.tile_k = 4;
    kernel.forms = {{{ElementType::bf16}, {op.epilogue}, 2, {}}};
    choices.push_back(choice);
  }
  auto const pipeline = tile(graph, choices);
  ASSERT_TRUE(pipeline) << to_text(pipeline.error());
  struct Cost {
    std::vector<double> distinct;  // bytes of each operand
    double stored, operations;
  };
  std::vector<Cost> const expected{
      {{16777216}, 8388608, 0},                                // 1024 x 4096 in fp32, and in bf16
      {{8388608, 50331648}, 12582912, 51539607552},            // 6144 columns of 4096
      {{10485760, 524288}, 10485760, 0},                       // 40 of 48 heads; 1024 x 64 cosines and sines
      {{8388608, 2097152, 2097152}, 8388608, 9663676416},      // 36 of 64 blocks of keys of 32 heads
      {{8388608, 33554432, 16777216}, 16777216, 34359738368},  // with the stream of residuals in fp32
      {{16777216}, 8388608, 0},                                //
      {{8388608, 234881024}, 29360128, 240518168576},          // 28672 columns, half of them stored
      {{29360128, 117440512, 16777216}, 16777216, 120259084288}};  //
  ASSERT_EQ(pipeline->stages.size(), expected.size());
  for (std::size_t s = 0; s < expected.size(); ++s) {
    auto const& stage = pipeline->stages[s];
    SCOPED_TRACE(stage.name);
    std::vector<double> distinct;
    for (auto const& operand : stage.operands) distinct.push_back(operand.unique_bytes);
    EXPECT_EQ(distinct, expected[s].distinct);
    auto const blocks = static_cast<double>(stage.blocks());
    EXPECT_DOUBLE_EQ(stage.store_bytes_per_block * blocks, expected[s].stored);
    EXPECT_DOUBLE_EQ(stage.flops_per_block * blocks, expected[s].operations);
  }
}

TEST(HfLayer, ReadsTheCacheAndHasTheModelsWindow) {
  auto const cached = import_hf_config(shipped("llama-3-8b"), "c.json", {"layer", 16, 4, 1008, 1, ""});
  ASSERT_TRUE(cached) << to_text(cached.error());
  EXPECT_EQ(cached->name, "c layer, 16 tokens, 4 sequences, 1008 cached, tp 1");
  EXPECT_THAT(inputs(cached->operators[3]),
              ElementsAre("a of turn", "b of turn", "c of turn", "b_cached k_cache", "c_cached v_cache"));
  auto const mistral =
      import_hf_config(R"({"model_type": "mistral", "hidden_size": 4096, "hidden_act": "silu",
    "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "sliding_window": 4096})",
                       "config.json", {"layer", 8192, 1, 0, 1, ""});
  ASSERT_TRUE(mistral) << to_text(mistral.error());
  EXPECT_EQ(mistral->attention.window, 4096);
}

TEST(HfLayer, BiasesAreThoseThatTheConfigSays) {
  auto const graph =
      import_hf_config(R"({"model_type": "llama", "hidden_size": 1024, "intermediate_size": 4096,
    "num_attention_heads": 16, "attention_bias": true, "torch_dtype": "bfloat16"})",
                       "c.json", {"layer", 64, 1, 0, 1, ""});
  ASSERT_TRUE(graph) << to_text(graph.error());
  EXPECT_EQ(inputs(graph->operators[0]).size(), 1u);
  EXPECT_THAT(inputs(graph->operators[2]), ElementsAre("a of qkv", "turns turns", "shift shift_qkv"));
  EXPECT_THAT(inputs(graph->operators[5]), ElementsAre("a of output", "shift shift_mlp_norm"));
}

TEST(HfLayer, PromptsOfUnequalLengthSayWhereTheyAre) {
  BlockOptions options{"layer", 1, 1, 0, 1, ""};
  options.prompts = {512, 128, 2048};
  auto const graph = import_hf_config(shipped("llama-3-8b"), "llama-3-8b.json", options);
  ASSERT_TRUE(graph) << to_text(graph.error());
  EXPECT_EQ(graph->name, "llama-3-8b layer, prompts of 512, 128, 2048 tokens, tp 1");
  for (auto const& op : graph->operators) EXPECT_EQ(op.m, 2688) << op.name;
  EXPECT_EQ(graph->attention.sequences, 3);
  EXPECT_EQ(graph->attention.tokens, 2048);
  EXPECT_THAT(graph->operators[3].groups, ElementsAre(512, 128, 2048));
  EXPECT_THAT(inputs(graph->operators[2]), ElementsAre("a of qkv", "turns turns", "positions positions"));
  EXPECT_THAT(inputs(graph->operators[3]),
              ElementsAre("a of turn", "b of turn", "c of turn", "offsets offsets"));
  auto const again = parse_workload(print_workload(*graph), "again.json");
  ASSERT_TRUE(again) << to_text(again.error());
  EXPECT_EQ(std::get<OperatorGraph>(*again).attention, graph->attention);
  EXPECT_EQ(std::get<OperatorGraph>(*again).operators[3].groups, graph->operators[3].groups);
  options.prompts.assign(64, 100);
  auto const many = import_hf_config(shipped("llama-3-8b"), "llama-3-8b.json", options);
  ASSERT_TRUE(many) << to_text(many.error());
  EXPECT_EQ(many->name, "llama-3-8b layer, 64 prompts of 100 to 100 tokens, tp 1");
  EXPECT_TRUE(parse_workload(print_workload(*many), "again.json"));
  // Learned positions turn nothing.
  auto const gpt2 = import_hf_config(shipped("gpt2"), "gpt2.json", options);
  ASSERT_TRUE(gpt2) << to_text(gpt2.error());
  EXPECT_THAT(inputs(gpt2->operators[2]), ElementsAre("a of qkv", "shift shift_qkv"));
  EXPECT_THAT(inputs(gpt2->operators[3]),
              ElementsAre("a of turn", "b of turn", "c of turn", "offsets offsets"));
}

TEST(HfLayer, LayersAreOneBehindTheOtherWithWeightsOfTheirOwn) {
  BlockOptions options{"layer", 512, 1, 0, 1, ""};
  auto const one = import_hf_config(shipped("gpt2"), "gpt2.json", options);
  ASSERT_TRUE(one) << to_text(one.error());
  options.layers = 3;
  auto const graph = import_hf_config(shipped("gpt2"), "gpt2.json", options);
  ASSERT_TRUE(graph) << to_text(graph.error());
  EXPECT_EQ(graph->name, "gpt2 layer, 512 tokens, 3 layers, tp 1");
  ASSERT_EQ(graph->operators.size(), 24u);
  std::set<std::string> weights;
  for (std::size_t i = 0; i < graph->operators.size(); ++i) {
    auto const& op = graph->operators[i];
    auto const& alone = one->operators[i % 8];
    EXPECT_EQ(op.name, alone.name + "_" + std::to_string(i / 8));
    EXPECT_EQ(std::tie(op.kind, op.epilogue, op.m, op.n, op.k),
              std::tie(alone.kind, alone.epilogue, alone.m, alone.n, alone.k));
    for (auto const& input : op.inputs)
      if (input.name == "b" && input.producer.empty()) weights.insert(input.buffer);
  }
  EXPECT_EQ(weights.size(), 12u);
  EXPECT_THAT(inputs(graph->operators[0]), ElementsAre("a x", "shift shift_attention_norm_0"));
  EXPECT_THAT(inputs(graph->operators[8]), ElementsAre("a of down_0", "shift shift_attention_norm_1"));
  EXPECT_THAT(inputs(graph->operators[4]), ElementsAre("a of attention_0", "b w_output_0", "residual x"));
  EXPECT_THAT(inputs(graph->operators[12]),
              ElementsAre("a of attention_1", "b w_output_1", "residual of down_0"));
  EXPECT_EQ(graph->operators[12].inputs[2].pattern, ReadPattern::same_tile);
  // All that the config says; angles and places of prompts are for all layers.
  options.layers = 0;
  options.prompts = {5, 7};
  auto const all = import_hf_config(shipped("llama-3.2-1b"), "llama-3.2-1b.json", options);
  ASSERT_TRUE(all) << to_text(all.error());
  EXPECT_EQ(all->operators.size(), 8u * 16);
  EXPECT_THAT(inputs(all->operators[8 * 15 + 2]),
              ElementsAre("a of qkv_15", "turns turns", "positions positions"));
}

std::string refusal(std::string const& members, BlockOptions const& options = {"layer", 64, 1, 0, 1, ""}) {
  auto const graph = import_hf_config(
      "{\"hidden_size\": 1024, \"intermediate_size\": 4096, \"num_attention_heads\": "
      "16, \"num_key_value_heads\": 16, \"torch_dtype\": \"bfloat16\", " +
          members + "}",
      "c.json", options);
  return graph ? "accepted" : to_text(graph.error());
}

TEST(HfLayer, RefusesWhatIsBuiltInAnotherWay) {
  EXPECT_EQ(refusal("\"model_type\": \"llama\""), "accepted");
  EXPECT_THAT(refusal("\"model_type\": \"gemma2\""),
              HasSubstr("E0214: layers of model_type \"gemma2\" are not described whole"));
  EXPECT_THAT(refusal("\"model_type\": \"gemma2\""), HasSubstr("--block fused_attention and --block mlp"));
  EXPECT_THAT(refusal("\"model_type\": \"phi\""), HasSubstr("E0214"));
  EXPECT_THAT(refusal("\"model_type\": \"mixtral\", \"num_local_experts\": 8, \"num_experts_per_tok\": 2"),
              HasSubstr("E0214: layers with experts are not described whole (8 of them)"));
  EXPECT_THAT(refusal("\"model_type\": \"llama\", \"mlp_bias\": true"), HasSubstr("E0214"));
  EXPECT_THAT(refusal("\"model_type\": \"phi3\", \"partial_rotary_factor\": 0.75"),
              HasSubstr("E0214: positions that turn 0.75 of a head are not supported"));
  EXPECT_THAT(refusal("\"model_type\": \"llama\", \"rope_parameters\": {\"partial_rotary_factor\": 0.5}"),
              HasSubstr("E0214"));
  EXPECT_THAT(refusal("\"model_type\": \"llama\", \"rope_parameters\": 7"), HasSubstr("E021"));
  EXPECT_THAT(refusal("\"model_type\": \"llama\"", {"layer", 64, 1, 0, 3, ""}), HasSubstr("E0215"));
  EXPECT_THAT(refusal("\"model_type\": \"llama\"", {"layer", 64, 1, 0, 32, ""}), HasSubstr("E0215"));
  EXPECT_THAT(refusal("\"model_type\": \"llama\"", {"layer", 64, 1, 0, 1, "", {64}}),
              HasSubstr("only experts have a routing"));
  auto const layers = [](std::int64_t count, std::string const& more = "", char const* block = "layer") {
    BlockOptions options{block, 64, 1, 0, 1, ""};
    options.layers = count;
    return refusal("\"model_type\": \"llama\"" + more, options);
  };
  EXPECT_EQ(layers(5), "accepted");
  EXPECT_THAT(layers(0), HasSubstr("E0216: the config does not say how many layers the model has"));
  EXPECT_THAT(layers(5, ", \"num_hidden_layers\": 4"), HasSubstr("E0216: 5 layers, and the model has 4"));
  EXPECT_THAT(layers(0, ", \"num_hidden_layers\": 1025"), HasSubstr("E0216: 1025 layers in one chain"));
  EXPECT_THAT(layers(1025), HasSubstr("E0216: layers must be between 0 and 1024, not 1025"));
  EXPECT_THAT(layers(2, "", "mlp"), HasSubstr("E0216: several layers are of --block layer"));
  auto const prompts = [](BlockOptions options, std::vector<std::int64_t> lengths) {
    options.prompts = std::move(lengths);
    return refusal("\"model_type\": \"llama\"", options);
  };
  BlockOptions const layer{"layer", 1, 1, 0, 1, ""};
  EXPECT_EQ(prompts(layer, {5, 1, 300}), "accepted");
  EXPECT_THAT(prompts(layer, {5, 0}), HasSubstr("E0216: a prompt has between 1 and"));
  EXPECT_THAT(prompts(layer, std::vector<std::int64_t>(65, 8)),
              HasSubstr("E0216: 65 prompts of unequal length are more than 64"));
  EXPECT_THAT(prompts({"layer", 1, 1, 9, 1, ""}, {5, 8}), HasSubstr("have no cached tokens here"));
  EXPECT_THAT(
      prompts({"mlp", 1, 1, 0, 1, ""}, {5, 8}),
      HasSubstr("E0216: prompts of unequal length are of attention in one kernel, and not of --block mlp"));
  auto windowed = layer;
  windowed.prompts = {5, 300};
  EXPECT_THAT(refusal("\"model_type\": \"mistral\", \"sliding_window\": 299", windowed),
              HasSubstr("E0214: a prompt of 300 tokens among others of unequal length is longer than the"));
  EXPECT_EQ(refusal("\"model_type\": \"mistral\", \"sliding_window\": 300", windowed), "accepted");
}

}  // namespace
}  // namespace tessera
