// SPDX-License-Identifier: Apache-2.0
// Published models: the fields of their config.json that say sizes, and shapes worked out by hand.
#include <gmock/gmock.h>

#include <sstream>

#include "tessera/describe/workload_json.hpp"

namespace tessera {
namespace {

struct Published {
  char const* name;
  char const* config;  ///< without the braces; types and names as published
};

// clang-format off
constexpr Published k_models[] = {
    {"Qwen2.5-32B", R"("model_type": "qwen2", "hidden_size": 5120, "intermediate_size": 27648, "num_attention_heads": 40, "num_key_value_heads": 8, "hidden_act": "silu", "sliding_window": 131072, "use_sliding_window": false)"},
    {"Llama-3.1-405B", R"("model_type": "llama", "hidden_size": 16384, "intermediate_size": 53248, "num_attention_heads": 128, "num_key_value_heads": 8, "hidden_act": "silu")"},
    {"Mistral-Nemo", R"("model_type": "mistral", "hidden_size": 5120, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "sliding_window": null, "hidden_act": "silu")"},
    {"Mistral-7B-v0.1", R"("model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "sliding_window": 4096, "hidden_act": "silu")"},
    {"Qwen3-0.6B", R"("model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "hidden_act": "silu")"},
    {"phi-2", R"("model_type": "phi", "hidden_size": 2560, "intermediate_size": 10240, "num_attention_heads": 32, "num_key_value_heads": 32, "hidden_act": "gelu_new")"},
    {"Phi-3-mini-4k", R"("model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192, "num_attention_heads": 32, "num_key_value_heads": 32, "hidden_act": "silu", "sliding_window": 2047)"},
    {"phi-4", R"("model_type": "phi3", "hidden_size": 5120, "intermediate_size": 17920, "num_attention_heads": 40, "num_key_value_heads": 10, "hidden_act": "silu", "sliding_window": null)"},
    {"gemma-7b", R"("model_type": "gemma", "hidden_size": 3072, "intermediate_size": 24576, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256, "hidden_act": "gelu")"},
    {"gemma-2-27b", R"("model_type": "gemma2", "hidden_size": 4608, "intermediate_size": 36864, "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 4096)"},
    {"gemma-3-4b", R"("model_type": "gemma3", "torch_dtype": "bfloat16", "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}, "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"})"},
    {"gemma-3-27b", R"("model_type": "gemma3", "torch_dtype": "bfloat16", "text_config": {"model_type": "gemma3_text", "head_dim": 128, "hidden_size": 5376, "intermediate_size": 21504, "num_attention_heads": 32, "num_key_value_heads": 16, "sliding_window": 1024})"},
    {"falcon-7b", R"("model_type": "falcon", "hidden_size": 4544, "num_attention_heads": 71, "num_kv_heads": 71, "multi_query": true, "new_decoder_architecture": false)"},
    {"falcon-40b", R"("model_type": "falcon", "hidden_size": 8192, "num_attention_heads": 128, "num_kv_heads": 8, "multi_query": true, "new_decoder_architecture": true)"},
    {"mpt-30b", R"("model_type": "mpt", "d_model": 7168, "n_heads": 64, "expansion_ratio": 4, "attn_config": {"attn_type": "multihead_attention"})"},
    {"stablelm-2-12b", R"("model_type": "stablelm", "hidden_size": 5120, "intermediate_size": 13824, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_act": "silu")"},
    {"starcoder2-7b", R"("model_type": "starcoder2", "hidden_size": 4608, "intermediate_size": 18432, "num_attention_heads": 36, "num_key_value_heads": 4, "hidden_act": "gelu_pytorch_tanh", "sliding_window": 4096)"},
    {"starcoder", R"("model_type": "gpt_bigcode", "n_embd": 6144, "n_inner": 24576, "n_head": 48, "multi_query": true, "activation_function": "gelu")"},
    {"gpt-j-6b", R"("model_type": "gptj", "n_embd": 4096, "n_inner": null, "n_head": 16, "activation_function": "gelu_new")"},
    {"gpt-neox-20b", R"("model_type": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576, "num_attention_heads": 64, "hidden_act": "gelu_fast")"},
    {"command-r7b", R"("model_type": "cohere2", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "hidden_act": "silu", "sliding_window": 4096)"},
    {"glm-4-9b", R"("model_type": "glm", "hidden_size": 4096, "intermediate_size": 13696, "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "hidden_act": "silu")"},
    {"Mixtral-8x7B", R"("model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_act": "silu", "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": null)"},
    {"Qwen3-30B-A3B", R"("model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "hidden_act": "silu", "num_experts": 128, "num_experts_per_tok": 8, "mlp_only_layers": [])"},
    {"Qwen2-57B-A14B", R"("model_type": "qwen2_moe", "hidden_size": 3584, "intermediate_size": 18944, "moe_intermediate_size": 2560, "shared_expert_intermediate_size": 20480, "num_attention_heads": 28, "num_key_value_heads": 4, "hidden_act": "silu", "num_experts": 64, "num_experts_per_tok": 8)"},
    {"DeepSeek-V3", R"("model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_attention_heads": 128, "num_key_value_heads": 128, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1, "first_k_dense_replace": 3, "hidden_act": "silu", "quantization_config": {"quant_method": "fp8"})"},
    {"gpt-oss-20b", R"("model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "hidden_act": "silu", "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128, "quantization_config": {"quant_method": "mxfp4"})"},
};
// clang-format on

Expected<OperatorGraph> import(std::string const& name, BlockOptions options) {
  if (options.data_type.empty()) options.data_type = "bf16";
  for (auto const& model : k_models)
    if (model.name == name)
      return import_hf_config(std::string("{") + model.config + "}", name + ".json", options);
  ADD_FAILURE() << name;
  return OperatorGraph{};
}

/// "gate_up 8x2x3 swiglu; down ...": m, n, k, * batch, epilogue.
std::string sizes(Expected<OperatorGraph> const& graph) {
  if (!graph) return graph.error().front().code + " " + graph.error().front().message;
  std::ostringstream text;
  for (auto const& op : graph->operators) {
    text << (text.tellp() > 0 ? "; " : "") << op.name << ' ' << op.m << 'x' << op.n << 'x' << op.k;
    if (op.batch > 1) text << " *" << op.batch;
    if (!op.groups.empty()) text << " in " << op.groups.size();
    if (op.epilogue != Epilogue::none) text << ' ' << to_text(op.epilogue);
  }
  return text.str();
}
std::string mlp(std::string const& name, std::int64_t tokens, int parallel) {
  return sizes(import(name, {"mlp", tokens, 1, 0, parallel, ""}));
}
/// Query heads, key heads, their width, and keys that a token sees.
std::string attention(std::string const& name, std::int64_t tokens, std::int64_t cached, int parallel,
                      std::string const& block = "attention") {
  auto const graph = import(name, {block, tokens, 1, cached, parallel, ""});
  if (!graph) return graph.error().front().code + " " + graph.error().front().message;
  auto const& a = graph->attention;
  std::ostringstream text;
  text << a.query_heads << '/' << a.kv_heads << 'x' << a.head_dim << ", " << a.cached + a.tokens
       << " keys, qkv " << graph->operators[0].n << 'x' << graph->operators[0].k << ", output "
       << graph->operators[4].k;
  return text.str();
}

TEST(PublishedModels, MlpsThatAreGatedAndOnesThatAreNot) {
  EXPECT_EQ(mlp("Qwen2.5-32B", 8, 4), "gate_up 8x13824x5120 swiglu; down 8x5120x6912");
  EXPECT_EQ(mlp("Llama-3.1-405B", 1, 8), "gate_up 1x13312x16384 swiglu; down 1x16384x6656");
  EXPECT_EQ(mlp("Mistral-Nemo", 1, 2), "gate_up 1x14336x5120 swiglu; down 1x5120x7168");
  EXPECT_EQ(mlp("Qwen3-0.6B", 1, 1), "gate_up 1x6144x1024 swiglu; down 1x1024x3072");
  EXPECT_EQ(mlp("phi-2", 1, 1), "up 1x10240x2560 gelu; down 1x2560x10240");
  EXPECT_EQ(mlp("Phi-3-mini-4k", 1, 1), "gate_up 1x16384x3072 swiglu; down 1x3072x8192");
  EXPECT_EQ(mlp("phi-4", 1, 4), "gate_up 1x8960x5120 swiglu; down 1x5120x4480");
  EXPECT_EQ(mlp("gemma-7b", 1, 1), "gate_up 1x49152x3072 geglu; down 1x3072x24576");
  EXPECT_EQ(mlp("gemma-2-27b", 16, 8), "gate_up 16x9216x4608 geglu; down 16x4608x4608");
  EXPECT_EQ(mlp("gemma-3-4b", 1, 1), "gate_up 1x20480x2560 geglu; down 1x2560x10240");
  EXPECT_EQ(mlp("gemma-3-27b", 1, 8), "gate_up 1x5376x5376 geglu; down 1x5376x2688");
  EXPECT_EQ(mlp("falcon-7b", 1, 1), "up 1x18176x4544 gelu; down 1x4544x18176");
  EXPECT_EQ(mlp("falcon-40b", 1, 8), "up 1x4096x8192 gelu; down 1x8192x4096");
  EXPECT_EQ(mlp("mpt-30b", 1, 1), "up 1x28672x7168 gelu; down 1x7168x28672");
  EXPECT_EQ(mlp("stablelm-2-12b", 1, 1), "gate_up 1x27648x5120 swiglu; down 1x5120x13824");
  EXPECT_EQ(mlp("starcoder2-7b", 1, 1), "up 1x18432x4608 gelu; down 1x4608x18432");
  EXPECT_EQ(mlp("starcoder", 1, 1), "up 1x24576x6144 gelu; down 1x6144x24576");
  EXPECT_EQ(mlp("gpt-j-6b", 1, 1), "up 1x16384x4096 gelu; down 1x4096x16384");
  EXPECT_EQ(mlp("gpt-neox-20b", 1, 1), "up 1x24576x6144 gelu; down 1x6144x24576");
  EXPECT_EQ(mlp("command-r7b", 1, 1), "gate_up 1x28672x4096 swiglu; down 1x4096x14336");
  EXPECT_EQ(mlp("glm-4-9b", 1, 1), "gate_up 1x27392x4096 swiglu; down 1x4096x13696");
  EXPECT_EQ(mlp("DeepSeek-V3", 1, 8), "gate_up 1x4608x7168 swiglu; down 1x7168x2304")
      << "of the first layers";
}

TEST(PublishedModels, HeadsAndTheirWidth) {
  EXPECT_EQ(attention("Qwen2.5-32B", 1, 1023, 4), "10/2x128, 1024 keys, qkv 1792x5120, output 1280");
  EXPECT_EQ(attention("Mistral-Nemo", 1, 0, 1), "32/8x128, 1 keys, qkv 6144x5120, output 4096");
  EXPECT_EQ(attention("Qwen3-0.6B", 1, 0, 1), "16/8x128, 1 keys, qkv 4096x1024, output 2048");
  EXPECT_EQ(attention("phi-2", 1, 0, 1), "32/32x80, 1 keys, qkv 7680x2560, output 2560");
  EXPECT_EQ(attention("gemma-2-27b", 1, 9999, 8), "4/2x128, 10000 keys, qkv 1024x4608, output 512");
  EXPECT_EQ(attention("gemma-3-4b", 1, 0, 1), "8/4x256, 1 keys, qkv 4096x2560, output 2048");
  EXPECT_EQ(attention("falcon-7b", 1, 0, 1), "71/1x64, 1 keys, qkv 4672x4544, output 4544");
  EXPECT_EQ(attention("falcon-40b", 1, 0, 8), "16/1x64, 1 keys, qkv 1152x8192, output 1024");
  EXPECT_EQ(attention("mpt-30b", 1, 0, 1), "64/64x112, 1 keys, qkv 21504x7168, output 7168");
  EXPECT_EQ(attention("starcoder", 1, 0, 1), "48/1x128, 1 keys, qkv 6400x6144, output 6144");
  EXPECT_EQ(attention("glm-4-9b", 1, 0, 1), "32/2x128, 1 keys, qkv 4608x4096, output 4096");
  EXPECT_EQ(attention("Mixtral-8x7B", 1, 0, 8), "4/1x128, 1 keys, qkv 768x4096, output 512");
  EXPECT_EQ(attention("Qwen3-30B-A3B", 1, 0, 4), "8/1x128, 1 keys, qkv 1280x2048, output 1024");
  EXPECT_EQ(attention("gpt-oss-20b", 1, 511, 8), "8/1x64, 512 keys, qkv 640x2880, output 512");
}

TEST(PublishedModels, WindowsOfAllLayersAndOfSome) {
  EXPECT_EQ(attention("Mistral-7B-v0.1", 1, 9999, 1), "32/8x128, 4096 keys, qkv 6144x4096, output 4096");
  EXPECT_EQ(attention("Mistral-7B-v0.1", 16, 9999, 1), "32/8x128, 4111 keys, qkv 6144x4096, output 4096")
      << "the first of 16 tokens sees 4095 before it";
  EXPECT_EQ(
      attention("Mistral-7B-v0.1", 4097, 0, 1),
      "E0214 4097 new tokens are more than the sliding window of 4096: a band of keys is not supported");
  EXPECT_EQ(attention("gemma-2-27b", 1, 9999, 8, "local_attention"),
            "4/2x128, 4096 keys, qkv 1024x4608, output 512");
  EXPECT_EQ(attention("gpt-oss-20b", 1, 511, 1, "local_attention"),
            "64/8x64, 128 keys, qkv 5120x2880, output 4096");
  EXPECT_EQ(attention("command-r7b", 1, 4999, 1, "local_attention"),
            "32/8x128, 4096 keys, qkv 6144x4096, output 4096");
  EXPECT_EQ(attention("Mistral-7B-v0.1", 1, 0, 1, "local_attention"),
            "E0214 this model has no layers with a window beside others");
}

TEST(PublishedModels, ExpertsAreGroupsOfRows) {
  auto const experts = [](std::string const& name, std::int64_t tokens, int parallel,
                          std::string const& block = "experts") {
    return sizes(import(name, {block, tokens, 1, 0, parallel, ""}));
  };
  EXPECT_EQ(experts("Mixtral-8x7B", 64, 4), "gate_up 128x7168x4096 in 8 swiglu; down 128x4096x3584 in 8");
  EXPECT_EQ(experts("Mixtral-8x7B", 1, 1), "gate_up 2x28672x4096 in 2 swiglu; down 2x4096x14336 in 2")
      << "two experts for one token";
  EXPECT_EQ(experts("Qwen3-30B-A3B", 100, 1),
            "gate_up 800x1536x2048 in 128 swiglu; down 800x2048x768 in 128");
  EXPECT_EQ(experts("gpt-oss-20b", 8, 1), "gate_up 32x5760x2880 in 32 swiglu; down 32x2880x2880 in 32");
  EXPECT_EQ(experts("DeepSeek-V3", 32, 8), "gate_up 256x512x7168 in 256 swiglu; down 256x7168x256 in 256");
  EXPECT_EQ(experts("DeepSeek-V3", 32, 8, "shared_expert"), "gate_up 32x512x7168 swiglu; down 32x7168x256");
  EXPECT_EQ(experts("Qwen2-57B-A14B", 1, 1, "shared_expert"),
            "gate_up 1x40960x3584 swiglu; down 1x3584x20480");
  EXPECT_EQ(experts("phi-2", 1, 1), "E0214 this model has no experts");
  EXPECT_EQ(experts("Mixtral-8x7B", 1, 1, "shared_expert"), "E0214 this model has no shared expert");
}

TEST(PublishedModels, RoutingSaysWhatEachExpertGets) {
  BlockOptions options{"experts", 20, 1, 0, 1, ""};
  auto const even = import("Mixtral-8x7B", options);
  ASSERT_TRUE(even) << to_text(even.error());
  EXPECT_THAT(even->operators[0].groups, testing::ElementsAre(5, 5, 5, 5, 5, 5, 5, 5));
  options.tokens = 9;
  EXPECT_THAT(import("Mixtral-8x7B", options)->operators[1].groups,
              testing::ElementsAre(3, 3, 2, 2, 2, 2, 2, 2));
  options.tokens = 20;
  options.routing = {20, 0, 14, 0, 6};
  auto const uneven = import("Mixtral-8x7B", options);
  ASSERT_TRUE(uneven) << to_text(uneven.error());
  EXPECT_THAT(uneven->operators[0].groups, testing::ElementsAre(20, 14, 6));
  auto const refusal = [&](std::string const& block, std::vector<std::int64_t> routing) {
    options.block = block, options.routing = std::move(routing);
    auto const graph = import("Mixtral-8x7B", options);
    return graph ? "planned" : to_text(graph.error());
  };
  EXPECT_THAT(refusal("experts", {30, 6}), testing::HasSubstr("E0216: routing of 36 rows, and there are 40"));
  EXPECT_THAT(refusal("experts", {21, 19}),
              testing::AllOf(testing::HasSubstr("E0216: an expert gets 21 rows, and there are 20 tokens"),
                             testing::HasSubstr("hint: give every expert at most 20 rows")));
  EXPECT_THAT(refusal("experts", {40, 0, 0, 0, 0, 0, 0, 0, 0}),
              testing::HasSubstr("to 9 experts, and there are 8"));
  EXPECT_THAT(refusal("experts", {41, -1}), testing::HasSubstr("between 0 and"));
  EXPECT_THAT(refusal("attention", {40}), testing::HasSubstr("only experts have a routing"));
}

TEST(PublishedModels, WhatCannotBePlannedIsRefusedWithAWayOut) {
  auto const refusal = [](std::string const& name, BlockOptions const& options) {
    auto const graph = import(name, options);
    return graph ? "planned" : to_text(graph.error());
  };
  using testing::HasSubstr;
  EXPECT_THAT(refusal("Mixtral-8x7B", {"mlp", 1, 1, 0, 1, ""}),
              HasSubstr("hint: --block experts plans them"));
  EXPECT_THAT(refusal("Qwen2-57B-A14B", {"mlp", 1, 1, 0, 1, ""}), HasSubstr("--block shared_expert"));
  EXPECT_THAT(refusal("DeepSeek-V3", {"attention", 1, 1, 0, 1, ""}), HasSubstr("latent vector"));
  for (auto const* name : {"DeepSeek-V3", "gpt-oss-20b"}) {
    for (auto const& model : k_models)
      if (model.name == std::string_view(name)) {
        auto const graph =
            import_hf_config(std::string("{") + model.config + "}", "c.json", {"experts", 1, 1, 0, 1, ""});
        ASSERT_FALSE(graph);
        EXPECT_THAT(to_text(graph.error()), HasSubstr("quantized weights are not supported"));
        EXPECT_THAT(to_text(graph.error()), HasSubstr("--dtype bf16"));
      }
  }
  EXPECT_THAT(refusal("falcon-7b", {"attention", 1, 1, 0, 8, ""}), HasSubstr("E0215"));
  auto const opt = import_hf_config(
      R"({"model_type": "opt", "hidden_size": 768, "ffn_dim": 3072, "num_attention_heads": 12})", "c.json",
      {"mlp", 1, 1, 0, 1, ""});
  ASSERT_FALSE(opt);
  EXPECT_EQ(opt.error().front().code, "E0213");
}

TEST(PublishedModels, EveryModelHasItsBlocks) {
  std::size_t whole = 0;  // attention and what follows it, on one GPU
  for (auto const& model : k_models) {
    bool heads = false;
    bool products = false;
    for (auto const* block : {"mlp", "attention", "experts"})
      for (int const parallel : {1, 2}) {
        auto const graph = import(model.name, {block, 16, 2, 64, parallel, ""});
        if (graph) {
          EXPECT_GE(graph->operators.size(), 2U) << model.name;
          if (parallel == 1) (std::string(block) == "attention" ? heads : products) = true;
        } else {
          EXPECT_THAT(graph.error().front().code, testing::AnyOf("E0214", "E0215")) << model.name;
          EXPECT_NE(graph.error().front().suggestion, "") << model.name << ": no way out";
        }
      }
    EXPECT_TRUE(heads || products) << model.name << ": nothing of it is planned";
    if (heads && products)
      ++whole;
    else
      EXPECT_STREQ(model.name, "DeepSeek-V3");  // its attention keeps a latent vector, not keys
  }
  EXPECT_EQ(std::size(k_models), 27U);  // docs/models.md says both numbers
  EXPECT_EQ(whole, 26U);
}

TEST(PublishedModels, ExpertsInEverySecondLayerLeaveAnMlpToPlan) {
  auto const config = [](char const* more) {
    return std::string(R"({"model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144, )") +
           more +
           R"("moe_intermediate_size": 768, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, )"
           R"("hidden_act": "silu", "num_experts": 128, "num_experts_per_tok": 8})";
  };
  BlockOptions const mlp{"mlp", 64, 1, 0, 1, "bf16"};
  auto const all = import_hf_config(config(""), "all.json", mlp);
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().front().code, "E0214");
  EXPECT_EQ(sizes(import_hf_config(config("\"decoder_sparse_step\": 2, "), "half.json", mlp)),
            "gate_up 64x12288x2048 swiglu; down 64x2048x6144");
}

}  // namespace
}  // namespace tessera
