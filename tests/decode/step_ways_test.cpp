// SPDX-License-Identifier: Apache-2.0
// How a step is computed, chosen by the number of sequences, and what launches are predicted to take beside
// what was measured. Without a GPU.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <tessera/measure/machine_json.hpp>
#include <tessera/measure/statistics.hpp>
#include <tessera/simulate/role_machine.hpp>

#include "kernels/decode/cache.hpp"
#include "kernels/decode/launch_times.hpp"
#include "kernels/decode/operator_times.hpp"
#include "kernels/decode/token_roles.hpp"
#include "support/assert_ok.hpp"

namespace tessera::decode {
namespace {

MachineProfile profile(char const* name) { return machine(name).value(); }

TEST(StepWays, HaveNames) {
  EXPECT_EQ(step_by("fastest"), StepBy::fastest);
  EXPECT_EQ(step_by("persistent"), StepBy::persistent);
  EXPECT_EQ(step_by("launches"), StepBy::launches);
  EXPECT_FALSE(step_by("fast"));
  EXPECT_FALSE(step_by(""));
}

TEST(StepWays, ManySequencesTakeLaunches) {
  EXPECT_FALSE(head_launched(StepBy::fastest, k_least_launched_head - 1));
  EXPECT_TRUE(head_launched(StepBy::fastest, k_least_launched_head));
  EXPECT_FALSE(layers_by_launches(StepBy::fastest, k_least_launched - 1)) << "a prediction decides";
  EXPECT_TRUE(layers_by_launches(StepBy::fastest, k_least_launched));
  EXPECT_TRUE(layers_by_launches(StepBy::launches, 1));
  EXPECT_FALSE(layers_by_launches(StepBy::persistent, 64));
  EXPECT_FALSE(head_launched(StepBy::persistent, 64));
}

TEST(StepWays, OperatorsHaveNames) {
  std::vector<std::string> names;
  for (auto const which : k_layer_operators) names.emplace_back(operator_name(which));
  EXPECT_THAT(names, testing::ElementsAre("norm", "qkv", "attention", "out", "mlp_norm", "gate_up",
                                          "activation", "down"));
}

/// Few parts where there are many sequences, more where SMs would have nothing to do.
TEST(StepWays, PartsOfLaunchedAttention) {
  constexpr int sms = 132;
  auto const model = model_of("llama-3.2-1b").value();
  EXPECT_EQ(launched_splits(model, 64, 1024, sms).apart, 1);
  EXPECT_EQ(launched_splits(model, 64, 1024, sms).in_cluster, 0);
  EXPECT_EQ(launched_splits(model, 1, 1024, sms).in_cluster, 8);
  EXPECT_GT(launched_splits(model, 1, 8192, sms).apart, 8);
  for (int batch = 1; batch <= k_most_batch; ++batch) {
    int const pairs = batch * model.kv_heads;
    auto const splits = launched_splits(model, batch, 1024, sms);
    ASSERT_GE(splits.apart, 1);
    ASSERT_LE(splits.apart, k_most_splits);
    ASSERT_FALSE(parts_share_cluster(pairs * splits.apart, splits.apart, sms));
    if (splits.in_cluster > 0) {
      ASSERT_TRUE(parts_share_cluster(pairs * splits.in_cluster, splits.in_cluster, sms));
    } else {
      ASSERT_FALSE(parts_share_cluster(2 * pairs, 2, sms)) << batch;
    }
  }
}

/// What launches took when all products were the library's.
LaunchCosts before_ours() {
  LaunchCosts costs;
  costs.ours_us = 1e6, costs.between_us = 0.65;
  costs.attention_us = 4.6, costs.extras_us = 0, costs.head_us = 4;
  return costs;
}

/// What launches took when our products read their weights by 256 bytes.
LaunchCosts by_256_bytes() {
  LaunchCosts costs;
  costs.ours_bandwidth = 0.97, costs.ours_head_bandwidth = 0.91;
  return costs;
}

/// LaunchCosts says which figures were fitted to what of these.
struct LaunchRecord {
  char const *gpu, *name;
  std::size_t sizes;  ///< that it has
  LaunchCosts costs = {};
};
class LaunchRecords : public testing::TestWithParam<LaunchRecord> {};
INSTANTIATE_TEST_SUITE_P(
    StepWays, LaunchRecords,
    testing::Values(LaunchRecord{"h200", "decode_launches_l2", 4},
                    LaunchRecord{"h200", "decode_launches_8b_l2", 2},
                    LaunchRecord{"h200", "decode_launches_8b_l2_64", 1},
                    LaunchRecord{"h200", "decode_shares_l2", 3}, LaunchRecord{"h200", "decode_128_l2", 2},
                    LaunchRecord{"h200", "decode_launches_ways", 7, by_256_bytes()},
                    LaunchRecord{"h200", "decode_launches_parts", 3, by_256_bytes()},
                    LaunchRecord{"h200", "decode_launches_8b_ways", 1, by_256_bytes()},
                    LaunchRecord{"h200", "decode_launches_8b_few", 2, by_256_bytes()},
                    LaunchRecord{"h200", "decode_launches_8b_many", 1, by_256_bytes()},
                    LaunchRecord{"h200", "decode_shares_70b", 2, by_256_bytes()},
                    LaunchRecord{"h200", "decode_128", 2, by_256_bytes()},
                    LaunchRecord{"h200", "decode_128_8b", 1, by_256_bytes()},
                    LaunchRecord{"h200", "decode_launches_qwen3_ways", 3, by_256_bytes()},
                    LaunchRecord{"h200", "decode_launches_qwen3_parts", 3, by_256_bytes()},
                    LaunchRecord{"h200", "decode_launches_gpt2_ways", 3, by_256_bytes()},
                    LaunchRecord{"h200", "decode_launches_gpt2_parts", 1, by_256_bytes()},
                    LaunchRecord{"h200", "decode_shares_ways", 4, by_256_bytes()},
                    LaunchRecord{"h200", "decode_shares_parts", 1, by_256_bytes()},
                    LaunchRecord{"h100", "decode_launches", 5, before_ours()}),
    [](auto const& of) { return std::string(of.param.gpu) + "_" + of.param.name; });
TEST_P(LaunchRecords, ArePredicted) {
  auto const& of = GetParam();
  std::ifstream file(std::string(TESSERA_SOURCE_DIR "/results/") + of.gpu + "/" + of.name + ".json");
  ASSERT_TRUE(file);
  auto const record = nlohmann::json::parse(file);
  std::vector<double> off;
  for (auto const& [name, one] : record.items()) {
    auto const model = model_of(name).value();
    for (auto const& size : one["sizes"]) {
      std::map<std::string, double> measured;
      for (auto const& row : size["variants"])
        if (row["detail"] == "rings of the decoder's choice, all by launches")
          measured[row["variant"]] = row["us"];
      if (measured.count("token") == 0) continue;
      auto const made = predict_launches(model, size["batch"], size["cached"], profile(of.gpu), of.costs);
      EXPECT_EQ(made.operators.size(), std::size(k_layer_operators));
      for (auto const& [part, us] : {std::pair{"token", made.token_us()}, {"layers", made.layers_us}}) {
        off.push_back(std::abs(us / measured[part] - 1));
        std::printf("%s, %d sequences, %s: %.0f us, predicted %.0f (%+.1f %%)\n", name.c_str(),
                    size["batch"].get<int>(), part, measured[part], us, 100 * (us / measured[part] - 1));
        EXPECT_LT(off.back(), 0.08);
      }
    }
  }
  ASSERT_EQ(off.size(), 2 * of.sizes);
  EXPECT_LT(median(off), 0.05);
}

/// Attention alone, µs of a layer in a record, where parts are known: they are not in it. Of two sequences in
/// `*_parts`, where six a cluster were asked for and did not fit, four a cluster are assumed.
struct AttentionAlone {
  char const *record, *model;
  int batch, splits;
};
constexpr AttentionAlone k_attention_alone[] = {
    {"decode_launches_8b_ways", "llama-3-8b", 16, 1},    {"decode_launches_gpt2_ways", "gpt2", 1, 8},
    {"decode_launches_gpt2_ways", "gpt2", 4, 8},         {"decode_launches_gpt2_ways", "gpt2", 16, 2},
    {"decode_launches_ways", "llama-3.2-1b", 1, 8},      {"decode_launches_ways", "llama-3.2-1b", 2, 8},
    {"decode_launches_ways", "llama-3.2-1b", 4, 4},      {"decode_launches_ways", "llama-3.2-1b", 8, 2},
    {"decode_launches_ways", "llama-3.2-1b", 16, 1},     {"decode_launches_ways", "llama-3.2-1b", 32, 1},
    {"decode_launches_ways", "llama-3.2-1b", 64, 1},     {"decode_launches_parts", "llama-3.2-1b", 2, 4},
    {"decode_launches_qwen3_ways", "qwen3-0.6b", 1, 16}, {"decode_launches_qwen3_ways", "qwen3-0.6b", 4, 4},
    {"decode_launches_qwen3_ways", "qwen3-0.6b", 16, 1}, {"decode_launches_qwen3_parts", "qwen3-0.6b", 1, 8},
    {"decode_launches_qwen3_parts", "qwen3-0.6b", 2, 4}, {"decode_shares_ways", "llama-65b:8", 1, 16},
    {"decode_shares_ways", "llama-65b:8", 16, 1},        {"decode_shares_ways", "gpt-3-145b:8", 1, 8},
    {"decode_shares_ways", "llama-3-70b:8", 1, 8},       {"decode_shares_parts", "llama-65b:8", 1, 8}};
TEST(StepWays, AttentionAloneIsPredicted) {
  auto const machine = profile("h200");
  LaunchCosts const costs;
  double const bytes_per_us = 1e3 * role_machine(machine).dram_gbps / machine.sms;
  std::vector<double> off;
  for (auto const& of : k_attention_alone) {
    std::ifstream file(std::string(TESSERA_SOURCE_DIR "/results/h200/") + of.record + ".json");
    ASSERT_TRUE(file);
    auto const model = model_of(of.model).value();
    auto const record = nlohmann::json::parse(file);
    for (auto const& size : record[of.model]["sizes"]) {
      if (size["batch"] != of.batch) continue;
      for (auto const& row : size["variants"]) {
        if (row["variant"] != "operator" || row["detail"] != "attention") continue;
        double const us = row["us"].get<double>() / model.layers;
        bool const extras = model.has_qkv_shifts() || model.norms_heads;
        double const made =
            costs.attention_us + (extras ? costs.extras_us : 0) +
            launched_work(model, of.batch, size["cached"].get<int>() + 1, machine.sms, of.splits) /
                bytes_per_us;
        off.push_back(std::abs(made / us - 1));
        std::printf("%s, %d sequences, %d parts: %.2f us, predicted %.2f (%+.1f %%)\n", of.model, of.batch,
                    of.splits, us, made, 100 * (made / us - 1));
      }
    }
  }
  ASSERT_EQ(off.size(), std::size(k_attention_alone));
  std::printf("off by %.1f %% (median), %.1f %% at most\n", 100 * median(off),
              100 * *std::max_element(off.begin(), off.end()));
  EXPECT_LT(median(off), 0.05);
  EXPECT_LT(*std::max_element(off.begin(), off.end()), 0.08);
}

TokenPrediction predicted(Model const& model, int batch, char const* gpu, StepBy by) {
  auto made = predict_token(model, batch, 512, profile(gpu), {}, by);
  EXPECT_TRUE(made);
  return made ? *made : TokenPrediction{};
}

/// What is chosen is what is predicted to be the fastest, as far as predictions tell.
TEST(StepWays, PredictedAsChosen) {
  for (char const* name : {"llama-3.2-1b", "gpt2"})
    for (char const* gpu : {"h100", "h200"})
      for (int const batch : {2, 8, 17}) {
        auto const model = model_of(name).value();
        auto const us = [&](StepBy by) { return predicted(model, batch, gpu, by).token_us(); };
        EXPECT_LE(us(StepBy::fastest), 1.05 * std::min(us(StepBy::persistent), us(StepBy::launches)))
            << name << " on an " << gpu << ", " << batch << " sequences";
      }
}

/// The same model, sequences and tokens on two GPUs; and what nobody asked a prediction about.
TEST(StepWays, PredictionsDecideWhereTheyMay) {
  auto const model = model_of("llama-3.2-1b").value();
  auto const way = [&](int batch, char const* gpu, StepBy by = StepBy::fastest) {
    return predicted_steps(by, model, batch, 1024, profile(gpu));
  };
  EXPECT_EQ(way(16, "h200"), StepBy::launches);
  EXPECT_EQ(way(4, "h200"), StepBy::launches);
  EXPECT_EQ(way(2, "h200"), StepBy::launches);
  EXPECT_EQ(way(1, "h200"), StepBy::fastest);
  EXPECT_EQ(predicted_steps(StepBy::fastest, model, 1, 128, profile("h200")), StepBy::launches);
  EXPECT_EQ(way(16, "h200"), StepBy::launches) << "asked again";
  EXPECT_EQ(way(16, "h200", StepBy::persistent), StepBy::persistent);
  EXPECT_EQ(way(k_least_launched, "h200"), StepBy::fastest) << "its number says launches";
  for (char const* small : {"gpt2", "qwen3-0.6b"})
    EXPECT_EQ(predicted_steps(StepBy::fastest, model_of(small).value(), 1, 400, profile("h200")),
              StepBy::launches)
        << small;
}
/// Predictions that show what is chosen show it by what it takes.
TEST(StepWays, PredictionsOfTheFastest) {
  auto const model = model_of("gpt2").value();
  auto const fastest = predicted(model, 8, "h200", StepBy::fastest);
  EXPECT_EQ(fastest.token_us(), predicted(model, 8, "h200", StepBy::launches).token_us());
  EXPECT_FALSE(fastest.operators.empty());
}

}  // namespace
}  // namespace tessera::decode
