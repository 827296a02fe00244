// SPDX-License-Identifier: Apache-2.0
// What decoders are known, what is refused, and by how much positions turn queries and keys.
#include <gmock/gmock.h>

#include <cmath>

#include "kernels/decode/model.hpp"
#include "kernels/decode/rotation_table.hpp"

namespace tessera::decode {
namespace {

using testing::HasSubstr;

void expect_refused(Expected<void> const& outcome, std::string const& words) {
  ASSERT_FALSE(outcome) << words;
  EXPECT_EQ(outcome.error().front().code, "E0566");
  EXPECT_THAT(to_text(outcome.error()), HasSubstr(words));
}
template <class Change>
void expect_refused(Change const& change, std::string const& words) {
  auto model = known_models().front();
  change(model);
  expect_refused(check_model(model), words);
}

TEST(DecodeModel, KnownOnesAreTaken) {
  for (auto const& model : known_models()) {
    auto const found = model_of(model.name);
    ASSERT_TRUE(found);
    EXPECT_TRUE(check_model(*found)) << model.name;
  }
  auto const none = model_of("llama-9");
  ASSERT_FALSE(none);
  EXPECT_THAT(to_text(none.error()), HasSubstr("\"llama-9\""));
  EXPECT_THAT(to_text(none.error()), HasSubstr("llama-3.2-1b, llama-3.2-3b, llama-3-8b, qwen2.5-0.5b, "));
}
/// By hand: LLaMA-65B and GPT-3 145B on eight GPUs, as their published sizes say.
TEST(DecodeModel, SharesHaveTheirPartOfEachLayer) {
  auto const llama = model_of("llama-65b:8"), whole = model_of("llama-65b");
  ASSERT_TRUE(llama) << to_text(llama.error());
  EXPECT_EQ(llama->name, "llama-65b:8");
  EXPECT_EQ(llama->gpus, 8);
  EXPECT_EQ(llama->heads, 8);
  EXPECT_EQ(llama->kv_heads, 8);
  EXPECT_EQ(llama->intermediate, 2752);
  EXPECT_EQ(llama->hidden, 8192);
  double const head = 2.0 * 32000 * 8192;
  EXPECT_DOUBLE_EQ(llama->weight_bytes() - head, (whole->weight_bytes() - head) / 8) << "the head is whole";
  EXPECT_DOUBLE_EQ(llama->cache_bytes(), whole->cache_bytes() / 8);
  auto const gpt = model_of("gpt-3-145b:8");
  ASSERT_TRUE(gpt) << to_text(gpt.error());
  EXPECT_EQ(gpt->attended(), 1536);
  EXPECT_EQ(gpt->intermediate, 6144);
  EXPECT_TRUE(check_model(*gpt));
  // Fewer key heads than GPUs: each has one, and its part of the queries.
  auto const many = model_of("llama-3-70b:16");
  ASSERT_TRUE(many) << to_text(many.error());
  EXPECT_EQ(many->kv_heads, 1);
  EXPECT_EQ(many->group(), 4);
  EXPECT_EQ(model_of("llama-65b:1")->name, "llama-65b");
}
TEST(DecodeModel, SharesThatCannotBeAreRefused) {
  auto const refusal = [](char const* name) {
    auto const found = model_of(name);
    return found ? "taken" : to_text(found.error());
  };
  EXPECT_EQ(refusal("llama-65b:7"),
            "error E0215: 64 attention heads of llama-65b cannot be divided among 7 GPUs\n"
            "   hint: use a tensor-parallel degree that divides 64");
  EXPECT_EQ(refusal("llama-3.2-3b:12"),
            "error E0215: 8 kv heads of llama-3.2-3b can be neither divided among nor repeated over 12 GPUs\n"
            "   hint: use a tensor-parallel degree that divides 8 or is a multiple of it");
  EXPECT_EQ(refusal("gpt-3-145b:0"),
            "error E0216: tensor-parallel degree must be between 1 and 65536, not 0");
  for (auto const* none : {"llama-65b:", "llama-65b:8x", "llama-65b:8:2", ":8"})
    EXPECT_THAT(refusal(none), HasSubstr("error E0566: no decoder is known by the name")) << none;
  auto odd = model_of("llama-65b").value();
  odd.intermediate = 22020;
  auto const features = share_of(odd, 8);
  ASSERT_FALSE(features);
  EXPECT_EQ(to_text(features.error()),
            "error E0215: 22020 inner features of llama-65b's MLP cannot be divided among 8 GPUs\n"
            "   hint: use a tensor-parallel degree that divides 22020");
  auto const twice = share_of(model_of("llama-65b:2").value(), 2);
  ASSERT_FALSE(twice);
  EXPECT_EQ(to_text(twice.error()),
            "error E0566: llama-65b:2 is a share already\n   hint: divide the whole model");
}
/// Sizes of heads that are not the hidden size, and extras, are no reason to refuse.
TEST(DecodeModel, AttentionMayHaveExtras) {
  auto model = known_models().front();
  EXPECT_FALSE(model.has_extras());
  for (auto const member : {&Model::qkv_biases, &Model::out_biases, &Model::norms_heads}) {
    auto one = model;
    one.*member = true;
    EXPECT_TRUE(one.has_extras());
    EXPECT_TRUE(check_model(one));
  }
  auto with_window = model;
  with_window.window = 4096;
  EXPECT_TRUE(with_window.has_extras());
  EXPECT_TRUE(check_model(with_window));
  auto const qwen = model_of("qwen3-4b");
  ASSERT_TRUE(qwen);
  EXPECT_EQ(qwen->attended(), 4096);
  EXPECT_EQ(qwen->hidden, 2560);
  // 3.6 billion weights beside the embedding, and the embedding as the head.
  EXPECT_NEAR(qwen->weight_bytes() / 2, 3.6e9 + 151936.0 * 2560, 0.05e9);
  EXPECT_EQ(model_of("qwen2.5-0.5b")->group(), 7);
}
TEST(DecodeModel, RefusalsSayNumbers) {
  expect_refused([](Model& m) { m.head_size = 80; }, "heads of size 80");
  expect_refused([](Model& m) { m.head_size = 96, m.heads = m.kv_heads = 9; }, "9 heads of 96");
  expect_refused([](Model& m) { m.head_size = 64, m.heads = m.kv_heads = 1, m.gpus = 8; }, "1 head of 64");
  expect_refused([](Model& m) { m.head_size = 96, m.norms_heads = true; }, "normed heads of size 96");
  expect_refused([](Model& m) { m.kv_heads = 5; }, "32 query heads on 5 key heads");
  expect_refused([](Model& m) { m.kv_heads = 2; }, "32 query heads on 2 key heads");
  expect_refused([](Model& m) { m.hidden = 2000; }, "a hidden size of 2000");
  expect_refused([](Model& m) { m.intermediate = 0; }, "an intermediate size of 0");
  expect_refused([](Model& m) { m.vocabulary = 63; }, "a vocabulary of 63");
  expect_refused([](Model& m) { m.layers = 0; }, "0 layers");
  expect_refused([](Model& m) { m.mlp_biases = true; }, "an MLP with gates and biases");
  expect_refused([](Model& m) { m.layer_norms = true; }, "LayerNorm beside an MLP with gates");
  expect_refused([](Model& m) { m.layer_norms = m.gelu = true; }, "positions that turn queries");
  expect_refused([](Model& m) { m.learned_positions = 1 << 30; }, "1073741824 learned positions");
  expect_refused([](Model& m) { m.window = -1; }, "a window of -1 keys");
  expect_refused([](Model& m) { m.norm_epsilon = 0; }, "epsilon 0");
  expect_refused([](Model& m) { m.window = 9, m.window_from = 16; }, "9 keys from layer 16 of 16 on");
  expect_refused([](Model& m) { m.window_from = 1; }, "a window of 0 keys from layer 1");
  expect_refused([](Model& m) { m.rotation.theta = 0; }, "a rotation with theta 0 and");
  expect_refused(check_sequences(65, 100), "65 sequences");
  expect_refused(check_sequences(0, 100), "0 sequences");
  expect_refused(check_sequences(1, 0), "room for 0 tokens");
  expect_refused(check_sequences(1, 1025, most_capacity(*model_of("gpt2"))), "room for 1025 tokens");
}
/// Learned positions are as many as there are; those that turn queries end nowhere.
TEST(DecodeModel, GPT2) {
  auto const model = model_of("gpt2").value();
  EXPECT_TRUE(check_model(model));
  EXPECT_TRUE(model.has_extras() && model.head_has_extras());
  EXPECT_EQ(model.group(), 1);
  // 85 million weights of layers, and the embedding as the head.
  EXPECT_NEAR(model.weight_bytes() / 2, 85e6 + 50257.0 * 768, 0.1e6);
  EXPECT_EQ(most_capacity(model), 1024);
  EXPECT_EQ(most_capacity(known_models().front()), k_most_capacity);
  EXPECT_FALSE(known_models().front().head_has_extras());
}

/// Worked out with the published formula, apart from the code: Llama-3.2-1B.
TEST(DecodeRotation, Llama3ScalesLongWaves) {
  auto const scaled = frequencies(known_models().front().rotation, 64);
  Rotation plain;
  plain.theta = 500000;
  auto const unscaled = frequencies(plain, 64);
  ASSERT_EQ(scaled.size(), 32u);
  EXPECT_FLOAT_EQ(unscaled[0], 1.0f);
  EXPECT_FLOAT_EQ(unscaled[16], 1.0f / std::sqrt(500000.0f));
  for (std::size_t d = 0; d < scaled.size(); ++d) {
    double const wave = 2 * M_PI / static_cast<double>(unscaled[d]);
    if (wave < 8192 / 4.0)
      EXPECT_FLOAT_EQ(scaled[d], unscaled[d]) << d;
    else if (wave > 8192)
      EXPECT_FLOAT_EQ(scaled[d], unscaled[d] / 32) << d;
    else
      EXPECT_TRUE(scaled[d] < unscaled[d] && scaled[d] > unscaled[d] / 32) << d;
  }
  // The wave of d = 15 has 2948 positions: 8192 / 2948 = 2.78, so (2.78 - 1) / 3 of it is kept.
  double const wave = 2 * M_PI * std::pow(500000.0, 30.0 / 64), kept = (8192 / wave - 1) / 3;
  EXPECT_NEAR(wave, 2948, 1);
  EXPECT_NEAR(static_cast<double>(scaled[15]), (kept + (1 - kept) / 32) * 2 * M_PI / wave, 1e-9);
}
/// Other factors where a decoder has room for more than the original positions.
TEST(DecodeRotation, Longrope) {
  Rotation rotation;
  rotation.original_positions = 100;
  rotation.short_factors.assign(48, 2), rotation.long_factors.assign(48, 5);
  rotation.short_factors[7] = 3;
  rotation.attention_factor = 1.25;
  auto const plain = frequencies({}, 96);
  auto const few = frequencies(rotation, 96, 100), many = frequencies(rotation, 96, 101);
  for (std::size_t d = 0; d < 48; ++d) {
    EXPECT_FLOAT_EQ(few[d], plain[d] / (d == 7 ? 3 : 2));
    EXPECT_FLOAT_EQ(many[d], plain[d] / 5);
  }
  auto const table = rotation_table(rotation, 96, 101);
  EXPECT_FLOAT_EQ(table[0].cosine, 1.25f);
  EXPECT_NEAR(table[100 * 48].cosine, 1.25 * std::cos(20.0), 1e-5);
  EXPECT_NEAR(table[100 * 48].sine, 1.25 * std::sin(20.0), 1e-5);
  auto model = known_models().front();
  model.rotation = rotation;
  expect_refused(check_model(model), "48 factors of frequencies for heads of 64");
  model.head_size = 96;
  EXPECT_TRUE(check_model(model));
  model.rotation.short_factors.clear();
  expect_refused(check_model(model), "0 factors of frequencies for heads of 96");
}
TEST(DecodeRotation, TableTurnsByPosition) {
  auto const table = rotation_table({}, 64, 50);
  ASSERT_EQ(table.size(), 50u * 32);
  EXPECT_FLOAT_EQ(table[0].cosine, 1);
  EXPECT_FLOAT_EQ(table[31].sine, 0);
  EXPECT_NEAR(table[49 * 32].cosine, std::cos(49.0), 1e-6);
  EXPECT_NEAR(table[49 * 32 + 16].sine, std::sin(49.0 / 100), 1e-6);
}

}  // namespace
}  // namespace tessera::decode
