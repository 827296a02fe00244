// SPDX-License-Identifier: Apache-2.0
// Predicted times of blocks and layers as their tokens grow, and where they come from.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "cli/program.hpp"
#include "support/cases.hpp"
#include "tessera/timeline_json.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;

struct PredictedTokens : CommandLine {
  double predicted_us(std::string const& block, int tokens) {
    auto const said =
        good("plan " + block + " --tokens " + std::to_string(tokens) + " --machine h200 --json");
    return said.json().at("predicted_us").get<double>();
  }
};

// The search is heuristic, and of more tokens another tile may fit by chance: a step down of so much.
constexpr double k_step = 0.02;

TEST_F(PredictedTokens, TimesOfMoreTokensAreNotShorter) {
  for (std::string const block : {"llama-65b --block fused_attention", "llama-3-8b --block fused_attention",
                                  "gpt-3-145b --tp 8 --block fused_attention", "llama-3.2-1b --block layer",
                                  "llama-3-8b --block layer"}) {
    if (support::k_sanitized && block != "llama-3.2-1b --block layer") continue;
    double most = 0;
    for (int const tokens : {1, 16, 48, 64, 65, 80, 81, 96, 97, 112, 113, 128, 129, 144, 160}) {
      auto const us = predicted_us(block, tokens);
      EXPECT_GE(us, (1 - k_step) * most) << block << ", " << tokens << " tokens";
      most = std::max(most, us);
    }
  }
}

// Tiles of one row whose clusters have two, persistent and not, and layers.
TEST_F(PredictedTokens, EveryStageEndsWithARow) {
  for (std::string const block :
       {"llama-65b --block fused_attention --tokens 80", "llama-65b --block fused_attention --tokens 96",
        "llama-3-8b --block fused_attention --tokens 64", "llama-3-8b --block layer --tokens 80"}) {
    good("plan " + block + " --machine h200 -o plan.json");
    good("simulate plan.json -o timeline.json --csv timeline.csv");
    auto const timeline = parse_timeline(read_text(folder / "timeline.json"), "timeline.json");
    ASSERT_TRUE(timeline.has_value());
    std::vector<std::int64_t> last(timeline->stages.size());
    for (auto const& tile : timeline->tiles) {
      auto& posted = last[static_cast<std::size_t>(tile.stage)];
      posted = std::max(posted, tile.posted);
    }
    for (std::size_t s = 0; s < last.size(); ++s)
      EXPECT_EQ(last[s], timeline->stages[s].last_end) << block << ", " << timeline->stages[s].name;
    auto const csv = read_text(folder / "timeline.csv");
    EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), static_cast<long>(timeline->tiles.size()) + 1);
  }
}

TEST_F(PredictedTokens, StagesOfLibrariesCountTheirBytes) {
  good("plan llama-3-8b --block layer --tokens 2 --machine h200 -o plan.json");
  good("simulate plan.json -o timeline.json");
  auto const timeline = parse_timeline(read_text(folder / "timeline.json"), "timeline.json");
  ASSERT_TRUE(timeline.has_value());
  // Weights of a layer: Q, K, V and the output's projection, gate, up and down.
  double const weights = 2.0 * 4096 * (4096 + 2 * 1024 + 4096 + 3 * 14336);
  EXPECT_GT(timeline->dram_bytes, weights);
  EXPECT_LT(timeline->dram_bytes, 1.05 * weights);
  for (auto const* model : {"llama-3-8b", "llama-3.2-1b", "llama-65b", "gpt-3-145b"})
    EXPECT_EQ(good(std::string("plan ") + model + " --block layer --tokens 2 --machine h200 --json")
                  .json()
                  .at("bound_by"),
              "memory")
        << model;
}

// The search compares its candidates at one clock; what a plan takes at its own is another figure.
TEST_F(PredictedTokens, APlanAndItsSimulationSayTheSameOrWhy) {
  for (std::string const block :
       {"llama-65b --block fused_attention --tokens 81", "llama-65b --block layer --tokens 1024",
        "llama-3.2-1b --block fused_attention --tokens 64", "gpt-3-145b --tp 8 --tokens 512"}) {
    auto const planned = good("plan " + block + " --machine h200 --alternatives 0").out;
    good("plan " + block + " --machine h200 -o plan.json");
    auto const simulated = good("simulate plan.json").out;
    auto const after = [](std::string const& text, std::string const& word) {
      auto const from = text.find(word) + word.size();
      return text.substr(from, text.find(" us", from) - from);
    };
    auto const plan_us = after(planned, "predicted "), run_us = after(simulated, "total       ");
    bool const same = plan_us == run_us;
    EXPECT_EQ(planned.find("  clock  ") == std::string::npos, same) << planned;
    EXPECT_EQ(simulated.find("  clock  ") == std::string::npos, same) << simulated;
    if (same) continue;
    EXPECT_THAT(planned, HasSubstr(run_us + " us"));
    EXPECT_THAT(simulated, HasSubstr(plan_us + " us"));
  }
}

// Of 8192 tokens a layer has so many blocks that the search's budget is spent on tile shapes.
TEST_F(PredictedTokens, LongLayersStartStagesEarlyOrSayWhyNot) {
  auto const said = good("plan llama-3-8b --block layer --tokens 8192 --machine h200 --json").json();
  bool early = false;
  for (auto const& launch : said.at("launches")) early = early || launch.value("start", "") == "early";
  bool const told = said.at("why").get<std::string>().find("was not tried") != std::string::npos;
  EXPECT_TRUE(early || told) << said.at("why");
}

}  // namespace
}  // namespace tessera
