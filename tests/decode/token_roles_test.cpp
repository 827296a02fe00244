// SPDX-License-Identifier: Apache-2.0
// What the simulator says of a generated token, beside what was measured.
#include "kernels/decode/token_roles.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tessera/measure/machine_json.hpp>
#include <tessera/measure/statistics.hpp>

#include "support/assert_ok.hpp"

namespace tessera::decode {
namespace {

using testing::HasSubstr;

MachineProfile const& h200() {
  static MachineProfile const profile = machine("h200").value();
  return profile;
}

TokenPrediction predicted(char const* model, int batch, int cached) {
  auto made = predict_token(model_of(model).value(), batch, cached, h200());
  EXPECT_TRUE(made) << to_text(made.error());
  return made.value();
}

double us_of(nlohmann::json const& size, char const* variant) {
  for (auto const& row : size["variants"])
    if (row["variant"] == variant && row["detail"] == "rings of the decoder's choice") return row["us"];
  return 0;
}

/// How far each size of a model is off.
void compare(nlohmann::json const& record, std::string const& name, std::vector<double>& off) {
  for (auto const& size : record.at(name)["sizes"]) {
    auto const made = predicted(name.c_str(), size["batch"], size["cached"]);
    for (auto const& [part, us] : {std::pair{"token", made.token_us()}, {"layers", made.layers_us}}) {
      double const measured = us_of(size, part);
      ASSERT_GT(measured, 0) << part;
      off.push_back(std::abs(us / measured - 1));
      std::printf("%s, %d behind %d, %s: %.0f us, predicted %.0f (%+.1f %%)\n", name.c_str(),
                  size["batch"].get<int>(), size["cached"].get<int>(), part, measured, us,
                  100 * (us / measured - 1));
    }
  }
}

void expect_near(std::vector<double> const& off) {
  ASSERT_FALSE(off.empty());
  for (double const one : off) EXPECT_LT(one, 0.08);
  EXPECT_LT(median(off), 0.05);
}

nlohmann::json record_of(char const* name) {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR "/results/h200/") + name);
  EXPECT_TRUE(file) << name;
  return nlohmann::json::parse(file);
}

TEST(TokenPrediction, IsNearTheRecordItWasFittedTo) {
  std::vector<double> off;
  compare(record_of("decode.json"), "llama-3.2-1b", off);
  expect_near(off);
}

TEST(TokenPrediction, IsNearTheRecordOfAnotherModel) {
  std::vector<double> off;
  compare(record_of("decode.json"), "llama-3-8b", off);
  expect_near(off);
}

TEST(TokenPrediction, LaunchesAreCutAsTheDecoderCutsThem) {
  auto const model = model_of("llama-3.2-1b").value();
  auto const few = token_launches(model, 1, 1024, h200());
  ASSERT_OK(few);
  EXPECT_EQ(few->cut.exchange, Exchange::words);
  // 24 rows of 2048 in two slots of 48 KB at most; 1,024 positions in 32 parts for 8 key heads.
  EXPECT_EQ(few->layers.work[k_qkv].slots, 2);
  EXPECT_NEAR(few->layers.work[k_qkv].slots * few->layers.work[k_qkv].slot_bytes,
              2.0 * model.qkv_features() * model.hidden / 132, 1);
  EXPECT_EQ(few->layers.plan.loop.body.stages[k_attention].blocks(), 8 * 16);
  EXPECT_EQ(few->layers.work[k_attention].slot_bytes, 4 * 64 * 64);
  EXPECT_EQ(few->layers.iterations, 16);
  auto const many = token_launches(model, 16, 1024, h200());
  ASSERT_OK(many);
  EXPECT_EQ(many->cut.exchange, Exchange::semaphore);
  EXPECT_EQ(many->layers.work[k_attention].slots, 16);  // of 64 positions
}

/// Of many layers a few are simulated; the rest take as long as those behind the first.
TEST(TokenRoles, ManyLayersAreNotAllSimulated) {
  auto model = model_of("llama-3.2-1b").value();
  auto const us_of_layers = [&](int layers) {
    model.layers = layers;
    auto const made = predict_token(model, 1, 0, h200());
    EXPECT_TRUE(made) << to_text(made.error());
    return made.value().layers_us;
  };
  double const few = us_of_layers(100), more = us_of_layers(140), most = us_of_layers(1024);
  EXPECT_NEAR(most, more + (1024 - 140) / 40.0 * (more - few), 1e-3 * most);
}

TEST(TokenPrediction, GrowsWithWhatIsRead) {
  auto const one = predicted("llama-3.2-1b", 1, 1024);
  EXPECT_GT(one.token_us(), one.floor_us);
  EXPECT_GT(predicted("llama-3.2-1b", 1, 16384).token_us(), one.token_us());
  EXPECT_GT(predicted("llama-3.2-1b", 32, 1024).token_us(), predicted("llama-3.2-1b", 16, 1024).token_us());
  EXPECT_GT(predicted("llama-3.2-3b", 1, 1024).token_us(), one.token_us());
  EXPECT_GT(predicted("llama-3.2-1b", 1, 0).token_us(), 0);
}

/// One GPU's shares: no faster than the reading of a layer's weights, and no more over it than boundaries
/// are.
TEST(TokenPrediction, OfShares) {
  for (auto const* name : {"llama-3-70b:8", "llama-65b:8", "gpt-3-145b:8"}) {
    auto const share = model_of(name).value();
    auto const made = predict_token(share, 1, 1024, h200());
    ASSERT_OK(made);
    EXPECT_EQ(made->cut.exchange, Exchange::words);
    double const layer = made->layers_us / share.layers;
    double const bytes = (share.weight_bytes() - 2.0 * share.vocabulary * share.hidden) / share.layers;
    double const reading = bytes / h200().dram_gbps / 1e3;
    EXPECT_GT(layer, reading) << name;
    EXPECT_LT(layer, 1.5 * reading) << name;
    std::printf("%s: a layer %.1f us, its weights %.1f\n", name, layer, reading);
  }
}

TEST(TokenPrediction, RefusesWhatADecoderRefuses) {
  auto const model = model_of("llama-3.2-1b").value();
  auto large = model;
  large.kv_heads = large.heads, large.head_size = 128;
  auto const slow = predict_token(large, 64, most_capacity(large) - 1, h200());
  ASSERT_FALSE(slow);
  EXPECT_THAT(to_text(slow.error()), HasSubstr("million slots to simulate"));
  auto const many = predict_token(model, 65, 1024, h200());
  ASSERT_FALSE(many);
  EXPECT_THAT(to_text(many.error()), HasSubstr("65 sequences at once"));
  auto const before = predict_token(model, 1, -1, h200());
  ASSERT_FALSE(before);
  EXPECT_THAT(to_text(before.error()), HasSubstr("a token behind -1 cached ones"));
  auto odd = model;
  odd.head_size = 72;
  EXPECT_FALSE(predict_token(odd, 1, 1024, h200()));
}

}  // namespace
}  // namespace tessera::decode
