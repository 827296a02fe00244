// SPDX-License-Identifier: Apache-2.0
// Hugging Face's models as decoders: sizes, names of weights, memory, and refusals with the config's line.
#include "kernels/decode/hf_model.hpp"

#include <gmock/gmock.h>

#include <set>

#include "tessera/shipped.hpp"

namespace tessera::decode {
namespace {

using testing::HasSubstr;

DecoderConfig shipped(std::string const& name) {
  for (auto const& file : shipped_workloads())
    if (file.name == name) return import_hf_decoder(file.text, name + ".json").value();
  return {};
}
std::string refusal(DecoderConfig const& config) {
  auto const found = model_of(config, "m");
  return found ? "taken" : to_text(found.error());
}

TEST(HfModel, ShippedConfigsAreTheKnownModels) {
  auto all = known_models();
  all.insert(all.end(), large_models().begin(), large_models().end());
  for (auto const& known : all) {
    auto const found = model_of(shipped(known.name), known.name);
    ASSERT_TRUE(found) << to_text(found.error());
    auto const same = check_same(known, *found, "config.json");
    EXPECT_TRUE(same) << to_text(same.error());
    EXPECT_EQ(found->rotation.original_positions, known.rotation.original_positions);
  }
}
TEST(HfModel, SharesAreOfTheConfig) {
  auto const share = model_of(shipped("gpt-3-145b"), "gpt-3-145b", 8);
  ASSERT_TRUE(share) << to_text(share.error());
  EXPECT_TRUE(check_same(model_of("gpt-3-145b:8").value(), *share, "config.json"));
  EXPECT_EQ(share->name, "gpt-3-145b:8");
  auto const refusal = [](DecoderConfig const& config, int gpus) {
    auto const found = model_of(config, "m", gpus);
    return found ? "taken" : to_text(found.error());
  };
  auto const config = shipped("llama-65b");
  EXPECT_EQ(refusal(config, 3),
            "llama-65b.json: error E0215: 64 attention heads of m cannot be divided among 3 GPUs\n"
            "   hint: use a tensor-parallel degree that divides 64");
  EXPECT_THAT(refusal(config, 0), HasSubstr("error E0216: tensor-parallel degree must be between 1 and"));
  EXPECT_EQ(
      refusal(config, 64),
      "llama-65b.json:8: error E0566: an intermediate size of 344 in one GPU's share of 64\n"
      "   hint: divide the model among another number of GPUs, or: ask for a multiple of 64 up to 2^20; "
      "pad the weights with zeros");
  // 16 query heads to a key head are too many, and 8 to the one of a share are not.
  auto wide = shipped("llama-3-70b");
  wide.layer.kv_heads = 4;
  EXPECT_THAT(refusal(wide, 1), HasSubstr("error E0566: 64 query heads on 4 key heads"));
  EXPECT_EQ(refusal(wide, 8), "taken");
}
TEST(HfModel, RefusalsNameTheLine) {
  auto const config = shipped("llama-3.2-1b");
  auto changed = config;
  changed.layer.head_dim = 80;
  EXPECT_EQ(
      refusal(changed),
      "llama-3.2-1b.json:8: error E0566: heads of size 80\n   hint: there are kernels for 64, 96 and 128");
  changed = config;
  changed.layer.window = 4096, changed.lines["sliding_window"] = 30;
  EXPECT_THAT(refusal(changed), HasSubstr("llama-3.2-1b.json:30: error E0566: a window of 4096 keys\n"));
  changed.layer.type = "mistral";
  EXPECT_EQ(model_of(changed, "m").value().window, 4096);
  changed = config;
  changed.mlp_bias = true;
  EXPECT_THAT(refusal(changed), HasSubstr("llama-3.2-1b.json:11: error E0566: an MLP with gates and biases"));
  changed = config;
  changed.rotation.theta = 0, changed.lines["rope_theta"] = 25;
  EXPECT_THAT(refusal(changed), HasSubstr("llama-3.2-1b.json:25: error E0566: a rotation with theta 0"));
  changed = config;
  changed.layer.type = "gemma2";
  EXPECT_THAT(refusal(changed), HasSubstr("there are no kernels for the layers of \"gemma2\""));
  changed = config;
  changed.layer.epilogue = Epilogue::geglu;
  EXPECT_THAT(refusal(changed), HasSubstr("an MLP without SiLU in its gate"));
  changed = config;
  changed.vocabulary = std::int64_t{1} << 40;
  EXPECT_THAT(refusal(changed), HasSubstr("a vocabulary of 1073741824"));
}
/// By their classes: Qwen2 always has biases of queries, keys and values, and no others; Llama and Qwen3 have
/// all four of attention's, or none.
TEST(HfModel, ExtrasFollowFromFamilyAndConfig) {
  auto const of = [](char const* family, bool attention_bias) {
    auto config = shipped("llama-3.2-1b");
    config.layer.type = family;
    config.attention_bias = attention_bias;
    auto const m = model_of(config, "m").value();
    return std::string(m.qkv_biases ? "qkv " : "") + (m.out_biases ? "out " : "") +
           (m.norms_heads ? "norms" : "");
  };
  EXPECT_EQ(of("llama", false), "");
  EXPECT_EQ(of("llama", true), "qkv out ");
  EXPECT_EQ(of("qwen2", false), "qkv ");
  EXPECT_EQ(of("qwen2", true), "qkv ");
  EXPECT_EQ(of("qwen3", false), "norms");
  EXPECT_EQ(of("qwen3", true), "qkv out norms");
  auto windows = shipped("qwen2.5-7b");
  windows.layer.window = 4096, windows.window_from = 20;
  auto const windowed = model_of(windows, "m").value();
  EXPECT_EQ(windowed.window, 4096);
  EXPECT_EQ(windowed.window_from, 20);
  windows.window_from = 28;
  EXPECT_THAT(refusal(windows), HasSubstr("error E0566: a window of 4096 keys from layer 28 of 28 on"));
}
TEST(HfModel, GPT2sActivationAndSizesAreRefusedByTheirNames) {
  auto const config = shipped("gpt2");
  auto changed = config;
  changed.activation = "gelu";
  EXPECT_EQ(refusal(changed),
            "gpt2.json:10: error E0566: an MLP with \"gelu\"\n"
            "   hint: there is a kernel for GELU by tanh: gelu_new, gelu_pytorch_tanh, gelu_fast");
  changed = config;
  changed.layer.hidden = 800;
  EXPECT_THAT(refusal(changed), HasSubstr("gpt2.json:4: error E0566: a hidden size of 800"));
  changed = config;
  changed.layer.head_dim = 48;
  EXPECT_THAT(refusal(changed), HasSubstr("gpt2.json:5: error E0566: heads of size 48"));
  changed = config;
  changed.norm_epsilon = 0;
  EXPECT_THAT(refusal(changed), HasSubstr("gpt2.json:9: error E0566: a norm with epsilon 0"));
}
/// Its matrices are [in][out]; a model without its head has names without the prefix.
TEST(HfModel, NamesOfGPT2sWeights) {
  auto const model = model_of(shipped("gpt2"), "gpt2").value();
  auto const wanted = tensors_of(model), bare = tensors_of(model, "");
  ASSERT_EQ(wanted.tensors.size(), 4u + 12 * 12);
  double bytes = 0;
  std::set<std::string> names;
  for (std::size_t i = 0; i < wanted.tensors.size(); ++i) {
    auto const& one = wanted.tensors[i];
    EXPECT_EQ(one.name, "transformer." + bare.tensors[i].name);
    names.insert(one.name);
    EXPECT_EQ(one.transposed, one.shape.size() == 2 && one.name.find(".h.") != std::string::npos) << one.name;
    if (one.shape.size() == 2) bytes += 2.0 * static_cast<double>(one.shape[0] * one.shape[1]);
  }
  EXPECT_EQ(names.size(), wanted.tensors.size());
  EXPECT_EQ(bytes, model.weight_bytes() + 2.0 * 1024 * 768) << "positions are read a row at a time";
  EXPECT_EQ(bare.tensors[0].name, "wte.weight");
  EXPECT_EQ(bare.tensors[0].shape, (std::vector<std::int64_t>{50257, 768}));
  auto const layer = layer_tensors(model, 7, "");
  EXPECT_EQ(layer[2].name, "h.7.attn.c_attn.weight");
  EXPECT_EQ(layer[2].shape, (std::vector<std::int64_t>{768, 2304}));
  EXPECT_EQ(layer[11].name, "h.7.mlp.c_proj.bias");
  // Masks of attention that old files have.
  EXPECT_EQ(wanted.ignored_ends,
            (std::vector<std::string>{".attn.bias", ".attn.masked_bias", "lm_head.weight"}));
  auto apart = model;
  apart.tied = false;
  EXPECT_EQ(tensors_of(apart).tensors.back().name, "lm_head.weight");
}
/// Positions turn neighbouring dimensions, which normed heads have no kernels for.
TEST(HfModel, InterleavedPositions) {
  auto config = shipped("llama-3-8b");
  auto const plain = model_of(config, "m").value();
  config.layer.type = "helium", config.rotation.interleaved = true;
  auto model = model_of(config, "m").value();
  EXPECT_TRUE(model.rotation.interleaved);
  EXPECT_THAT(to_text(check_same(model, plain, "config.json").error()),
              HasSubstr("interleaved positions: true of m, false here"));
  EXPECT_FALSE(unsupported(model));
  model.norms_heads = true;
  auto const why = unsupported(model);
  ASSERT_TRUE(why);
  EXPECT_THAT(why->message, HasSubstr("normed heads whose positions turn neighbouring dimensions"));
}
/// Queries, keys and values are one matrix, gate and up another.
TEST(HfModel, NamesOfPhi3sWeights) {
  auto config = shipped("llama-3-8b");
  config.layer.type = "phi3", config.layer.window = 2047, config.attention_bias = true;
  auto const model = model_of(config, "m").value();
  EXPECT_TRUE(model.joined_files);
  EXPECT_FALSE(model.qkv_biases || model.out_biases) << "its class has none";
  auto longer = config;
  longer.rotation.short_factors.assign(64, 1), longer.rotation.long_factors.assign(64, 2);
  longer.rotation.original_positions = 4096, longer.rotation.attention_factor = 1.19;
  auto const with_factors = model_of(longer, "m").value();
  EXPECT_EQ(with_factors.rotation.long_factors, std::vector<float>(64, 2));
  EXPECT_EQ(with_factors.rotation.original_positions, 4096);
  EXPECT_EQ(with_factors.rotation.attention_factor, 1.19);
  EXPECT_THAT(to_text(check_same(model, with_factors, "config.json").error()),
              HasSubstr("factor of attention: 1 of m, 1.19 here"));
  EXPECT_EQ(model.window, 2047);
  EXPECT_FALSE(check_same(model, model_of(shipped("llama-3-8b"), "m").value(), "config.json"));
  std::string text;
  for (auto const& one : layer_tensors(model, 1)) {
    text += one.name.substr(std::string("model.layers.1.").size());
    for (auto const extent : one.shape) text += " " + std::to_string(extent);
    text += "\n";
  }
  EXPECT_EQ(text,
            "input_layernorm.weight 4096\n"
            "self_attn.qkv_proj.weight 6144 4096\n"
            "self_attn.o_proj.weight 4096 4096\n"
            "post_attention_layernorm.weight 4096\n"
            "mlp.gate_up_proj.weight 28672 4096\n"
            "mlp.down_proj.weight 4096 14336\n");
}
TEST(HfModel, OtherModelsDiffer) {
  auto const one = model_of(shipped("llama-3.2-1b"), "llama-3.2-1b").value(),
             other = model_of(shipped("llama-3-8b"), "w").value();
  auto const found = check_same(one, other, "w/config.json");
  ASSERT_FALSE(found);
  EXPECT_EQ(to_text(found.error()),
            "w/config.json: error E0572: the weights are of another model than llama-3.2-1b\n"
            "   layers: 16 of llama-3.2-1b, 32 here\n"
            "   hidden size: 2048 of llama-3.2-1b, 4096 here\n"
            "   intermediate size: 8192 of llama-3.2-1b, 14336 here\n"
            "   head size: 64 of llama-3.2-1b, 128 here\n"
            "   factor of positions: 32 of llama-3.2-1b, 1 here\n"
            "   tied: true of llama-3.2-1b, false here\n"
            "   hint: name this file in place of llama-3.2-1b");
}
TEST(HfModel, NamesOfWeights) {
  auto const tied = model_of(shipped("llama-3.2-1b"), "1b").value(),
             apart = model_of(shipped("llama-3-8b"), "8b").value();
  auto const wanted = tensors_of(tied);
  ASSERT_EQ(wanted.tensors.size(), 2u + 9 * 16);
  EXPECT_EQ(tensors_of(apart).tensors.size(), 3u + 9 * 32);
  EXPECT_EQ(tensors_of(apart).tensors.back().name, "lm_head.weight");
  std::set<std::string> names;
  double bytes = 0;
  for (auto const& one : wanted.tensors) {
    names.insert(one.name);
    double count = 1;
    for (auto const extent : one.shape) count *= static_cast<double>(extent);
    if (one.shape.size() > 1) bytes += 2 * count;
  }
  EXPECT_EQ(names.size(), wanted.tensors.size());
  EXPECT_EQ(bytes, tied.weight_bytes()) << "the embedding in place of the head";
  auto const layer = layer_tensors(tied, 7);
  EXPECT_EQ(layer[2].name, "model.layers.7.self_attn.k_proj.weight");
  EXPECT_EQ(layer[2].shape, (std::vector<std::int64_t>{512, 2048}));
  EXPECT_EQ(layer[8].name, "model.layers.7.mlp.down_proj.weight");
  EXPECT_EQ(layer[8].shape, (std::vector<std::int64_t>{2048, 8192}));
}
TEST(HfModel, NamesOfExtras) {
  auto const names_and_sizes = [](std::string const& name) {
    std::string text;
    auto const layer = layer_tensors(model_of(shipped(name), name).value(), 3);
    for (std::size_t i = 9; i < layer.size(); ++i)
      text += layer[i].name + " " + std::to_string(layer[i].shape.at(0)) + "\n";
    return text;
  };
  EXPECT_EQ(names_and_sizes("llama-3-8b"), "");
  EXPECT_EQ(names_and_sizes("qwen2.5-0.5b"),
            "model.layers.3.self_attn.q_proj.bias 896\n"
            "model.layers.3.self_attn.k_proj.bias 128\n"
            "model.layers.3.self_attn.v_proj.bias 128\n");
  EXPECT_EQ(names_and_sizes("qwen3-0.6b"),
            "model.layers.3.self_attn.q_norm.weight 128\n"
            "model.layers.3.self_attn.k_norm.weight 128\n");
  auto with_out = model_of(shipped("qwen2.5-0.5b"), "m").value();
  with_out.out_biases = true;
  EXPECT_EQ(layer_tensors(with_out, 0).back().name, "model.layers.0.self_attn.o_proj.bias");
  EXPECT_EQ(layer_tensors(with_out, 0).back().shape, (std::vector<std::int64_t>{896}));
  // Heads times their size are not the model's.
  auto const wide = layer_tensors(model_of(shipped("qwen3-4b"), "4b").value(), 0);
  EXPECT_EQ(wide[1].shape, (std::vector<std::int64_t>{4096, 2560}));
  EXPECT_EQ(wide[4].shape, (std::vector<std::int64_t>{2560, 4096}));
}
TEST(HfModel, Memory) {
  auto const m = model_of(shipped("llama-3.2-1b"), "llama-3.2-1b").value();
  auto const read = memory_of(m, 2, 1000, false), made = memory_of(m, 2, 1000, true);
  EXPECT_DOUBLE_EQ(read.packed, m.weight_bytes());
  EXPECT_DOUBLE_EQ(read.stored, m.weight_bytes()) << "the embedding is the head";
  EXPECT_DOUBLE_EQ(read.cache, 2 * 1000 * m.cache_bytes());
  EXPECT_LT(made.stored, read.stored / 3);
  EXPECT_TRUE(check_memory(read, 141e9, "h200"));
  auto const refused = check_memory(read, 4e9, "this GPU");
  ASSERT_FALSE(refused);
  EXPECT_EQ(to_text(refused.error()),
            "error E0566: 5.0 GB of device memory are needed, and this GPU has 4.0\n"
            "   weights as stored: 2.5 GB, until they are packed\n"
            "   weights as read: 2.5 GB\n"
            "   cache: 0.1 GB\n"
            "   hint: take a smaller model; the cache is the smaller part of it");
  EXPECT_THAT(to_text(check_memory(memory_of(m, 64, 100000, true), 141e9, "h200").error()),
              HasSubstr("ask for less --capacity or fewer prompts"));
  EXPECT_DOUBLE_EQ(step_bytes(m, 3), m.weight_bytes() + 3 * m.cache_bytes());
}

}  // namespace
}  // namespace tessera::decode
