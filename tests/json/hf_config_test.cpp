// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "tessera/describe/workload_json.hpp"

namespace tessera {
namespace {

std::string shipped(std::string const& name) {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/workloads/" + name + ".json");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

OperatorGraph import(std::string const& name, BlockOptions const& options) {
  auto graph = import_hf_config(shipped(name), "workloads/" + name + ".json", options);
  EXPECT_TRUE(graph) << to_text(graph.error());
  return graph ? *graph : OperatorGraph{};
}

std::string sizes(Operator const& op) {
  std::ostringstream text;
  text << op.name << " " << op.m << "x" << op.n << "x" << op.k;
  if (op.batch > 1) text << " *" << op.batch;
  return text.str();
}
std::vector<std::string> sizes(OperatorGraph const& graph) {
  std::vector<std::string> out;
  for (auto const& op : graph.operators) out.push_back(sizes(op));
  return out;
}

using testing::ElementsAre;

TEST(HfConfig, shape_is_the_whole_layer) {
  auto const shape = import_hf_shape(shipped("llama-3-8b"), "c.json", 8);
  ASSERT_TRUE(shape) << to_text(shape.error());
  EXPECT_EQ(shape->hidden, 4096);
  EXPECT_EQ(shape->intermediate, 14336);
  EXPECT_EQ(shape->heads, 32);
  EXPECT_EQ(shape->kv_heads, 8);
  EXPECT_EQ(shape->head_dim, 128);
  EXPECT_EQ(shape->epilogue, Epilogue::swiglu);
  auto const uneven = import_hf_shape(shipped("llama-3-8b"), "c.json", 12);
  ASSERT_FALSE(uneven);
  EXPECT_EQ(uneven.error().front().code, "E0215");
  auto const experts = import_hf_shape(R"({"model_type": "mixtral", "hidden_size": 4096,
    "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8,
    "num_experts_per_tok": 2})",
                                       "c.json", 8);
  ASSERT_FALSE(experts);
  EXPECT_EQ(experts.error().front().code, "E0214");
  auto const unknown = import_hf_shape(R"({"model_type": "banana", "hidden_size": 4096})", "c.json", 8);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().front().code, "E0213");
}

TEST(HfConfig, gpt3_mlp_is_the_papers) {
  auto const graph = import("gpt-3-145b", {"mlp", 512, 1, 0, 8, ""});
  EXPECT_EQ(graph.name, "gpt-3-145b mlp, 512 tokens, tp 8");
  EXPECT_THAT(sizes(graph), ElementsAre("up 512x6144x12288", "down 512x12288x6144"));
  EXPECT_EQ(graph.operators[0].epilogue, Epilogue::gelu);
  EXPECT_EQ(graph.operators[1].inputs[0].pattern, ReadPattern::rows);
}

TEST(HfConfig, llama_mlp_fuses_gate_and_up) {
  auto const graph = import("llama-65b", {"mlp", 768, 1, 0, 8, ""});
  EXPECT_THAT(sizes(graph), ElementsAre("gate_up 768x5504x8192", "down 768x8192x2752"));
  EXPECT_EQ(graph.operators[0].epilogue, Epilogue::swiglu);
  EXPECT_EQ(graph.operators[1].inputs[0].pattern, ReadPattern::rows);
  EXPECT_EQ(graph.type, ElementType::fp16);
  EXPECT_EQ(import("llama-65b", {"mlp", 1, 1, 0, 8, "bf16"}).type, ElementType::bf16);
  EXPECT_EQ(import("llama-3-8b", {"mlp", 1, 1, 0, 8, ""}).type, ElementType::bf16);
}

TEST(HfConfig, inner_dimension_that_does_not_divide_is_refused) {
  auto const graph = import_hf_config(shipped("llama-65b"), "llama-65b", {"mlp", 1, 1, 0, 3, ""});
  ASSERT_FALSE(graph);
  EXPECT_EQ(to_text(graph.error()),
            "llama-65b:1: error E0215: 22016 inner features of the MLP cannot be divided among 3 GPUs\n"
            "   hint: use a tensor-parallel degree that divides 22016");
}

TEST(HfConfig, weights_that_are_not_16_bits_wide_are_refused_unless_a_type_is_asked_for) {
  auto const with = [](std::string const& member, std::string const& wanted) {
    return import_hf_config(R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
    "num_attention_heads": 32, )" +
                                member + "}",
                            "c.json", {"mlp", 8, 1, 0, 1, wanted});
  };
  for (auto const* type : {"float32", "float8_e4m3fn", "banana"}) {
    auto const refused = with(std::string("\"torch_dtype\": \"") + type + '"', "");
    ASSERT_FALSE(refused) << type;
    EXPECT_EQ(to_text(refused.error()),
              std::string("c.json:2: error E0214: weights of type \"") + type +
                  "\" are not supported\n"
                  "   supported: float16 and bfloat16\n"
                  "   hint: --dtype bf16 or --dtype fp16 plans the model as if its weights were that");
  }
  EXPECT_FALSE(with(R"("num_local_experts": "8")", "")) << "a wrong type hides no experts";
  EXPECT_TRUE(with(R"("num_local_experts": null)", ""));
  EXPECT_FALSE(with(R"("dtype": "float32")", ""));
  EXPECT_EQ(with(R"("torch_dtype": "bf16", "dtype": "torch.bfloat16")", "")->type, ElementType::bf16);
  auto const two = with(R"("torch_dtype": "bfloat16", "dtype": "banana")", "");
  ASSERT_FALSE(two);
  EXPECT_EQ(to_text(two.error()),
            "c.json:2: error E0214: \"dtype\" says that weights are of type \"banana\", and \"torch_dtype\" "
            "\"bfloat16\"\n"
            "   hint: leave out the one that is wrong, or say which to plan: --dtype bf16");
  EXPECT_FALSE(with(R"("torch_dtype": 16)", ""));
  EXPECT_FALSE(with(R"("torch_dtype": 16)", "bf16"));
  auto const quantized = with(R"("quantization_config": {"quant_method": "fp8"})", "");
  ASSERT_FALSE(quantized);
  EXPECT_EQ(quantized.error().front().message, "quantized weights are not supported");
  EXPECT_EQ(with(R"("torch_dtype": "float32", "quantization_config": {})", "bf16")->type, ElementType::bf16);
  EXPECT_EQ(with(R"("dtype": "torch.bfloat16", "quantization_config": null)", "")->type, ElementType::bf16);
  EXPECT_EQ(with(R"("torch_dtype": null)", "")->type, ElementType::fp16);
}

TEST(HfConfig, attention_of_a_prompt) {
  auto const graph = import("gpt-3-145b", {"attention", 1024, 2, 0, 8, ""});
  EXPECT_EQ(graph.name, "gpt-3-145b attention, 1024 tokens, 2 sequences, tp 8");
  EXPECT_THAT(sizes(graph),
              ElementsAre("qkv 2048x4608x12288", "scores 1024x1024x128 *24", "softmax 1024x1024x1 *24",
                          "context 1024x128x1024 *24", "output 2048x12288x1536"));
  for (auto const& op : graph.operators) EXPECT_LE(op.inputs.size(), 2u) << "no cache";
}

// Rows, hidden, query heads and key heads of a share, and the size of a head, by hand.
TEST(HfConfig, fused_attention_of_every_shipped_model) {
  struct Model {
    char const* name;
    int parallel;
    std::int64_t hidden, heads, kv_heads, head_dim;
  };
  for (auto const& m : {Model{"gpt-3-145b", 8, 12288, 12, 12, 128}, Model{"llama-65b", 8, 8192, 8, 8, 128},
                        Model{"llama-65b", 1, 8192, 64, 64, 128}, Model{"llama-3.2-1b", 1, 2048, 32, 8, 64},
                        Model{"llama-3.2-3b", 2, 3072, 12, 4, 128}, Model{"llama-3-8b", 1, 4096, 32, 8, 128},
                        Model{"llama-3-70b", 8, 8192, 8, 1, 128}, Model{"llama-3-70b", 16, 8192, 4, 1, 128},
                        Model{"qwen2.5-0.5b", 1, 896, 14, 2, 64}, Model{"qwen2.5-7b", 4, 3584, 7, 1, 128},
                        Model{"qwen2.5-72b", 8, 8192, 8, 1, 128}, Model{"qwen3-0.6b", 1, 1024, 16, 8, 128},
                        Model{"qwen3-4b", 1, 2560, 32, 8, 128}, Model{"qwen3-8b", 2, 4096, 16, 4, 128},
                        Model{"gpt2", 1, 768, 12, 12, 64}}) {
    SCOPED_TRACE(m.name);
    auto const graph = import(m.name, {"fused_attention", 1000, 3, 0, m.parallel, ""});
    auto const text = [](char const* name, std::int64_t n, std::int64_t k) {
      return std::string(name) + " 3000x" + std::to_string(n) + "x" + std::to_string(k);
    };
    auto const width = m.heads * m.head_dim;
    EXPECT_THAT(sizes(graph),
                ElementsAre(text("qkv", width + 2 * m.kv_heads * m.head_dim, m.hidden),
                            text("attention", width, m.head_dim), text("output", m.hidden, width)));
    AttentionShape expected{3, 1000, 0, m.heads, m.kv_heads, m.head_dim};
    expected.causal = true;
    EXPECT_EQ(graph.attention, expected);
    auto const again = parse_workload(print_workload(graph), "again.json");
    ASSERT_TRUE(again) << to_text(again.error());
    EXPECT_EQ(std::get<OperatorGraph>(*again).attention, expected);
  }
}

TEST(HfConfig, fused_attention_reads_the_cache_and_has_the_models_window) {
  auto const graph = import("llama-3-8b", {"fused_attention", 16, 4, 1008, 1, ""});
  EXPECT_EQ(graph.name, "llama-3-8b fused_attention, 16 tokens, 4 sequences, 1008 cached, tp 1");
  ASSERT_EQ(graph.operators[1].inputs.size(), 5u);
  EXPECT_EQ(graph.operators[1].inputs[3].buffer, "k_cache");
  EXPECT_EQ(graph.operators[1].inputs[4].buffer, "v_cache");
  auto const mistral =
      import_hf_config(R"({"model_type": "mistral", "hidden_size": 4096, "hidden_act": "silu",
    "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "sliding_window": 4096})",
                       "config.json", {"fused_attention", 8192, 1, 8192, 1, ""});
  ASSERT_TRUE(mistral) << to_text(mistral.error());
  EXPECT_EQ(mistral->attention.window, 4096);
  EXPECT_EQ(mistral->attention.cached, 4095);
  auto const uneven = import_hf_config(shipped("qwen2.5-7b"), "c.json", {"fused_attention", 64, 1, 0, 8, ""});
  ASSERT_FALSE(uneven);
  EXPECT_EQ(uneven.error().front().code, "E0215");
}

TEST(HfConfig, fused_attention_may_see_all_keys) {
  BlockOptions options{"fused_attention", 512, 1, 0, 8, ""};
  options.all_keys = true;
  auto const graph = import("gpt-3-145b", options);
  EXPECT_EQ(graph.name, "gpt-3-145b fused_attention, 512 tokens, all keys, tp 8");
  EXPECT_FALSE(graph.attention.causal);
  auto const again = parse_workload(print_workload(graph), "again.json");
  ASSERT_TRUE(again) << to_text(again.error());
  EXPECT_EQ(std::get<OperatorGraph>(*again).attention, graph.attention);
  auto const refusal = [&](std::string const& config) {
    auto const refused = import_hf_config(config, "config.json", options);
    return refused ? std::string("taken")
                   : refused.error().front().code + ": " + refused.error().front().message;
  };
  EXPECT_EQ(refusal(R"({"model_type": "mistral", "hidden_size": 4096, "hidden_act": "silu",
    "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "sliding_window": 4096})"),
            "E0214: tokens of this model see a window of 4096 keys, not all");
  options.prompts = {5, 8};
  EXPECT_EQ(refusal(shipped("gpt-3-145b")), "E0216: prompts of unequal length are behind a causal mask");
  options.prompts.clear();
  options.block = "layer";
  EXPECT_EQ(refusal(shipped("gpt-3-145b")),
            "E0216: attention to all keys is of --block fused_attention, and not of --block layer");
}

TEST(HfConfig, token_generation_reads_the_cache) {
  auto const graph = import("llama-3-70b", {"attention", 1, 4, 1023, 8, ""});
  EXPECT_THAT(sizes(graph), ElementsAre("qkv 4x1280x8192", "scores 1x1024x128 *32", "softmax 1x1024x1 *32",
                                        "context 1x128x1024 *32", "output 4x8192x1024"));
  EXPECT_EQ(graph.attention, (AttentionShape{4, 1, 1023, 8, 1, 128}));
  ASSERT_EQ(graph.operators[1].inputs.size(), 3u);
  EXPECT_EQ(graph.operators[1].inputs[2].buffer, "k_cache");
  EXPECT_EQ(graph.operators[3].inputs[2].buffer, "v_cache");
}

TEST(HfConfig, kv_heads_are_repeated_beyond_their_number) {
  auto const graph = import("llama-3.2-1b", {"attention", 16, 1, 0, 16, ""});
  EXPECT_EQ(graph.attention.query_heads, 2);
  EXPECT_EQ(graph.attention.kv_heads, 1);
  EXPECT_EQ(graph.attention.head_dim, 64);
}

TEST(HfConfig, every_shipped_model_imports_both_blocks) {
  for (auto const* name :
       {"llama-65b", "gpt-3-145b", "llama-3-8b", "llama-3-70b", "llama-3.2-1b", "qwen2.5-72b"})
    for (auto const* block : {"mlp", "attention"})
      for (int const parallel : {1, 8})
        EXPECT_FALSE(import(name, {block, 128, 1, 0, parallel, ""}).operators.empty());
}

TEST(HfConfig, families_keep_their_fields_in_different_places) {
  BlockOptions const options{"attention", 8, 1, 0, 1, ""};
  auto const neox = import_hf_config(R"({"model_type": "gpt_neox", "hidden_size": 4096, "hidden_act": "gelu",
    "intermediate_size": 16384, "num_attention_heads": 32, "torch_dtype": "float16"})",
                                     "m/config.json", options);
  ASSERT_TRUE(neox) << to_text(neox.error());
  EXPECT_EQ(neox->name, "m attention, 8 tokens, tp 1");
  EXPECT_EQ(neox->attention.kv_heads, 32);
  auto const qwen3 = import_hf_config(R"({"model_type": "qwen3", "hidden_size": 1024, "hidden_act": "silu",
    "intermediate_size": 3072, "num_attention_heads": 16, "num_key_value_heads": 8})",
                                      "config.json", options);
  ASSERT_TRUE(qwen3) << to_text(qwen3.error());
  EXPECT_EQ(qwen3->attention.head_dim, 128);  // not 1024 / 16
  EXPECT_EQ(qwen3->operators[4].k, 2048);
  auto const mistral =
      import_hf_config(R"({"model_type": "mistral", "hidden_size": 4096, "hidden_act": "silu",
    "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": null,
    "sliding_window": 4096})",
                       "config.json", options);
  ASSERT_TRUE(mistral) << to_text(mistral.error());
  auto const gpt2 = import_hf_config(R"({"model_type": "gpt2", "n_embd": 768, "n_head": 12})", "c.json",
                                     {"mlp", 8, 1, 0, 1, ""});
  ASSERT_TRUE(gpt2) << to_text(gpt2.error());
  EXPECT_EQ(gpt2->operators[0].n, 3072);
}

TEST(ConvNetwork, layers_are_chains_of_convolutions) {
  auto const graph = import_conv_network(shipped("vgg-19"), "workloads/vgg-19.json", {"14x14x256", 4});
  ASSERT_TRUE(graph) << to_text(graph.error());
  EXPECT_EQ(graph->name, "vgg-19 14x14x256, 4 images");
  EXPECT_THAT(sizes(*graph), ElementsAre("conv1 784x256x2304", "conv2 784x256x2304", "conv3 784x256x2304",
                                         "conv4 784x256x2304"));
  EXPECT_EQ(graph->operators[1].inputs[0].producer, "conv1");
  for (auto const* layer : {"56x56x64", "28x28x128", "14x14x256", "7x7x512"})
    EXPECT_TRUE(import_conv_network(shipped("resnet-38"), "resnet-38.json", {layer, 1}));
}

}  // namespace
}  // namespace tessera
