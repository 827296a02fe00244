// SPDX-License-Identifier: Apache-2.0
// A whole decoder's config.json: what is read, what is taken where nothing is said, and what is refused.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tessera/describe/decoder_config.hpp"
#include "tessera/shipped.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

Json llama() {
  return {{"model_type", "llama"},    {"hidden_size", 256},       {"intermediate_size", 512},
          {"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"num_hidden_layers", 3},
          {"vocab_size", 1024},       {"torch_dtype", "float32"}};
}
Expected<DecoderConfig> imported(Json const& json) { return import_hf_decoder(json.dump(2), "config.json"); }
std::string refusal(Json const& json) {
  auto const found = imported(json);
  return found ? "taken" : to_text(found.error());
}
Json with(char const* name, Json const& value) {
  auto json = llama();
  json[name] = value;
  return json;
}

TEST(HfDecoder, DefaultsOfTheConfigurationClass) {
  auto const found = imported(llama());
  ASSERT_TRUE(found) << to_text(found.error());
  EXPECT_EQ(found->layers, 3);
  EXPECT_EQ(found->vocabulary, 1024);
  EXPECT_EQ(found->layer.head_dim, 64);
  EXPECT_EQ(found->norm_epsilon, 1e-6);
  EXPECT_EQ(found->rotation.theta, 10000);
  EXPECT_EQ(found->rotation.factor, 1);
  EXPECT_FALSE(found->tied || found->attention_bias || found->mlp_bias);
  EXPECT_EQ(found->positions, 0);
  EXPECT_EQ(found->at("vocab_size").line, 9);  // members are sorted
  EXPECT_EQ(found->at("no such member").line, 0);
}
TEST(HfDecoder, Llama3sPositionsByBothNames) {
  Json const scaling = {{"rope_type", "llama3"},
                        {"factor", 32.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 4096},
                        {"rope_theta", 70000.0}};
  for (auto const* name : {"rope_scaling", "rope_parameters"}) {
    auto const found = imported(with(name, scaling));
    ASSERT_TRUE(found) << to_text(found.error());
    EXPECT_EQ(found->rotation.factor, 32) << name;
    EXPECT_EQ(found->rotation.original_positions, 4096) << name;
    EXPECT_EQ(found->rotation.theta, 70000) << name;
  }
  auto old = scaling;
  old.erase("rope_type");
  old["type"] = "llama3";
  EXPECT_EQ(imported(with("rope_scaling", old))->rotation.high_frequency_factor, 4);
  EXPECT_EQ(imported(with("rope_scaling", nullptr))->rotation.factor, 1);
  EXPECT_EQ(imported(with("rope_scaling", Json{{"rope_type", "default"}}))->rotation.factor, 1);
}
/// Where they are switched on, and behind how many layers.
TEST(HfDecoder, QwensWindows) {
  auto json = with("model_type", "qwen2");
  json["sliding_window"] = 4096, json["max_window_layers"] = 2;
  EXPECT_EQ(imported(json)->layer.window, 0);
  json["use_sliding_window"] = true;
  auto const some = imported(json);
  ASSERT_TRUE(some) << to_text(some.error());
  EXPECT_EQ(some->layer.window, 4096);
  EXPECT_EQ(some->window_from, 2);
  auto const behind = [&](char const* name, Json const& value) {
    auto other = json;
    other[name] = value;
    auto const found = imported(other);
    EXPECT_TRUE(found) << to_text(found.error());
    return std::pair{found->layer.window, found->window_from};
  };
  using Found = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(behind("max_window_layers", 3), (Found{0, 0})) << "all layers see all";
  EXPECT_EQ(behind("max_window_layers", nullptr), (Found{0, 0})) << "28 are usual";
  EXPECT_EQ(behind("max_window_layers", 0), (Found{4096, 0}));
  Json const full = "full_attention", sliding = "sliding_attention";
  EXPECT_EQ(behind("layer_types", Json{full, sliding, sliding}), (Found{4096, 1}));
  EXPECT_EQ(behind("layer_types", Json{full, full, full}), (Found{0, 0}));
  json["layer_types"] = Json{full, sliding};
  EXPECT_THAT(refusal(json), HasSubstr("E0217: \"layer_types\" has 2 kinds, and there are 3 layers"));
  json["layer_types"] = Json{full, full, "banana"};
  EXPECT_THAT(refusal(json), HasSubstr("E0214: layer 2 of a kind that is not supported: \"banana\""));
  json["layer_types"] = Json{sliding, full, sliding};
  EXPECT_THAT(refusal(json), HasSubstr("error E0214: layers with windows before layers without"));
}
/// Defaults are those of their classes; positions turn neighbours.
TEST(HfDecoder, HeliumAndErnie) {
  auto const helium = imported(with("model_type", "helium"));
  ASSERT_TRUE(helium) << to_text(helium.error());
  EXPECT_TRUE(helium->rotation.interleaved);
  EXPECT_EQ(helium->layer.head_dim, 128);
  auto json = with("model_type", "ernie4_5");
  for (auto const* name : {"rms_norm_eps", "rope_theta", "tie_word_embeddings"}) json.erase(name);
  auto const ernie = imported(json);
  ASSERT_TRUE(ernie) << to_text(ernie.error());
  EXPECT_TRUE(ernie->rotation.interleaved);
  EXPECT_EQ(ernie->norm_epsilon, 1e-5);
  EXPECT_EQ(ernie->rotation.theta, 500000);
  EXPECT_TRUE(ernie->tied);
  EXPECT_FALSE(ernie->attention_bias || ernie->mlp_bias);
  json["use_bias"] = true;
  auto const biased = imported(json);
  ASSERT_TRUE(biased) << to_text(biased.error());
  EXPECT_TRUE(biased->attention_bias && biased->mlp_bias);
  json["model_type"] = "helium", json.erase("use_bias");
  auto const usual = imported(json);
  ASSERT_TRUE(usual) << to_text(usual.error());
  EXPECT_EQ(usual->norm_epsilon, 1e-8);
  EXPECT_EQ(usual->rotation.theta, 100000);
  EXPECT_FALSE(usual->tied);
}
TEST(HfDecoder, Phi3) {
  auto json = with("model_type", "phi3");
  json["sliding_window"] = 2047, json["original_max_position_embeddings"] = 4096;
  auto const found = imported(json);
  ASSERT_TRUE(found) << to_text(found.error());
  EXPECT_EQ(found->norm_epsilon, 1e-5);
  EXPECT_EQ(found->layer.window, 2047);
}
/// Factors of half a head's dimensions; that of attention by the formula that was published with them.
TEST(HfDecoder, Longrope) {
  auto json = with("model_type", "phi3");
  std::vector<double> const few(32, 1.5), many(32, 4);
  json["max_position_embeddings"] = 131072, json["original_max_position_embeddings"] = 4096;
  json["rope_scaling"] = Json{{"type", "longrope"}, {"short_factor", few}, {"long_factor", many}};
  auto const found = imported(json);
  ASSERT_TRUE(found) << to_text(found.error());
  EXPECT_EQ(found->rotation.short_factors, few);
  EXPECT_EQ(found->rotation.long_factors, many);
  EXPECT_EQ(found->rotation.original_positions, 4096);
  EXPECT_NEAR(found->rotation.attention_factor, 1.1902380714238083, 1e-12);  // sqrt(1 + 5 / 12)
  auto within = json;
  within.erase("original_max_position_embeddings"), within.erase("rope_scaling");
  within["rope_parameters"] = json["rope_scaling"];
  within["rope_parameters"].update({{"original_max_position_embeddings", 4096}, {"attention_factor", 1.25}});
  EXPECT_EQ(imported(within)->rotation.attention_factor, 1.25);
  within["rope_parameters"].erase("original_max_position_embeddings");
  EXPECT_THAT(refusal(within), HasSubstr("\"original_max_position_embeddings\" is missing"));
  json["rope_scaling"]["long_factor"] = std::vector<double>(31, 4);
  EXPECT_THAT(refusal(json), HasSubstr("E0212: \"long_factor\" has 31 numbers above 0, and half a head 32"));
  json["rope_scaling"]["long_factor"] = std::vector<double>(32, 0);
  EXPECT_THAT(refusal(json), HasSubstr("\"long_factor\" has 0 numbers above 0"));
}
TEST(HfDecoder, GPT2NamesItsMembersInAnotherWay) {
  Json json = {{"model_type", "gpt2"}, {"n_embd", 256}, {"n_head", 4}, {"vocab_size", 523}};
  auto const usual = imported(json);
  ASSERT_TRUE(usual) << to_text(usual.error());
  EXPECT_EQ(usual->layers, 12);
  EXPECT_EQ(usual->positions, 1024);
  EXPECT_EQ(usual->norm_epsilon, 1e-5);
  EXPECT_EQ(usual->layer.intermediate, 1024);
  EXPECT_EQ(usual->activation, "gelu_new");
  EXPECT_TRUE(usual->tied && usual->attention_bias && usual->mlp_bias);
  json.update({{"n_layer", 3}, {"n_positions", 77}, {"n_inner", 512}, {"layer_norm_epsilon", 1e-3}});
  json.update({{"activation_function", "gelu"}, {"tie_word_embeddings", false}});
  auto const said = imported(json);
  ASSERT_TRUE(said) << to_text(said.error());
  EXPECT_EQ(said->layers, 3);
  EXPECT_EQ(said->positions, 77);
  EXPECT_EQ(said->norm_epsilon, 1e-3);
  EXPECT_EQ(said->layer.intermediate, 512);
  EXPECT_EQ(said->activation, "gelu");
  EXPECT_FALSE(said->tied);
  EXPECT_EQ(said->at("n_layer").line, 8);  // members are sorted
  for (auto const& [name, value] : {std::pair{"scale_attn_weights", false},
                                    {"scale_attn_by_inverse_layer_idx", true},
                                    {"add_cross_attention", true}}) {
    auto other = json;
    other[name] = value;
    EXPECT_THAT(refusal(other), HasSubstr(std::string("error E0214: \"") + name + "\" " +
                                          (value ? "true" : "false") + " is not supported"));
  }
}
TEST(HfDecoder, WhatIsNotComputedIsRefused) {
  EXPECT_EQ(refusal(with("rope_scaling", Json{{"rope_type", "yarn"}, {"factor", 4.0}})),
            "config.json:8: error E0214: positions scaled by \"yarn\" are not supported\n"
            "   supported: default, llama3 and longrope");
  EXPECT_THAT(refusal(with("rope_scaling", Json{{"rope_type", "llama3"}, {"factor", 4.0}})),
              HasSubstr("\"low_freq_factor\" is missing in \"rope_scaling\""));
  EXPECT_THAT(refusal(with("rope_scaling", Json{{"rope_type", "llama3"},
                                                {"factor", 4.0},
                                                {"low_freq_factor", 4.0},
                                                {"high_freq_factor", 4.0},
                                                {"original_max_position_embeddings", 4096}})),
              HasSubstr("\"high_freq_factor\" 4 is not above \"low_freq_factor\" 4"));
  EXPECT_THAT(refusal(with("partial_rotary_factor", 0.5)), HasSubstr("turn 0.5 of a head"));
  EXPECT_THAT(refusal(with("rope_parameters", Json{{"partial_rotary_factor", 0.75}})),
              HasSubstr("turn 0.75 of a head"));
  EXPECT_EQ(refusal(with("quantization_config", Json{{"bits", 4}})),
            "config.json:8: error E0214: quantized weights are not supported\n"
            "   supported: float16, bfloat16 and float32\n"
            "   hint: name a folder with the weights as BF16, F16 or F32");
  EXPECT_THAT(refusal(with("num_hidden_layers", 0)),
              HasSubstr("\"num_hidden_layers\" in the config must be"));
  EXPECT_THAT(refusal(with("vocab_size", nullptr)), HasSubstr("\"vocab_size\""));
  EXPECT_THAT(refusal(with("tie_word_embeddings", "no")), HasSubstr("must be true or false"));
  auto mixtral = with("model_type", "mixtral");
  mixtral["num_local_experts"] = 8, mixtral["num_experts_per_tok"] = 2;
  EXPECT_EQ(refusal(mixtral),
            "config.json:4: error E0214: whole decoders of model_type \"mixtral\" are not supported\n"
            "   supported: llama, mistral, qwen2, qwen3, phi3, ernie4_5, helium and gpt2");
}
TEST(HfDecoder, TypesOfWeights) {
  for (auto const* word : {"bfloat16", "torch.bfloat16", "float16", "half", "float32"})
    EXPECT_TRUE(imported(with("torch_dtype", word))) << word;
  EXPECT_TRUE(imported(with("torch_dtype", nullptr)));
  EXPECT_TRUE(imported(with("dtype", "torch.float32")));
  EXPECT_EQ(refusal(with("torch_dtype", "float8_e4m3fn")),
            "config.json:8: error E0214: weights of type \"float8_e4m3fn\" are not supported\n"
            "   supported: float16, bfloat16 and float32\n"
            "   hint: name a folder with the weights as BF16, F16 or F32");
  EXPECT_EQ(refusal(with("dtype", "bfloat16")),
            "config.json:2: error E0214: \"dtype\" says that weights are of type \"bfloat16\", and "
            "\"torch_dtype\" \"float32\"\n"
            "   hint: leave out the one that is wrong");
  EXPECT_THAT(refusal(with("torch_dtype", "banana")), HasSubstr("type \"banana\""));
  for (auto const& value : {Json(16), Json::object(), Json::array(), Json(true)})
    EXPECT_THAT(refusal(with("torch_dtype", value)), HasSubstr("config.json:8: error E0212: "))
        << value.dump();
}
TEST(HfDecoder, MistralHasAWindowUnlessItsConfigSaysNone) {
  auto mistral = with("model_type", "mistral");
  EXPECT_EQ(imported(mistral)->layer.window, 4096);
  mistral["sliding_window"] = nullptr;
  EXPECT_EQ(imported(mistral)->layer.window, 0);
  mistral["sliding_window"] = 1000;
  EXPECT_EQ(imported(mistral)->layer.window, 1000);
}
TEST(HfDecoder, ShippedOnes) {
  int decoders = 0;
  for (auto const& file : shipped_workloads())
    if (file.text.find("\"model_type\": \"llama\"") != std::string_view::npos ||
        file.text.find("\"model_type\": \"qwen") != std::string_view::npos) {
      auto const found = import_hf_decoder(file.text, std::string(file.name));
      ASSERT_TRUE(found) << to_text(found.error());
      ++decoders;
    }
  EXPECT_GE(decoders, 11);
}

}  // namespace
}  // namespace tessera
