// SPDX-License-Identifier: Apache-2.0
// Chains in microseconds, beside the record, and cuts that are chosen by them.
#include "kernels/convolution/chain_time.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tessera/measure/statistics.hpp>

#include "support/assert_ok.hpp"

namespace tessera::convolution {
namespace {

nlohmann::json recorded_chains() {
  std::ifstream file(TESSERA_SOURCE_DIR "/results/h200/convolution.json");
  EXPECT_TRUE(file);
  return nlohmann::json::parse(file)["same_size"]["chains"];
}
LayerChain chain_of(nlohmann::json const& one) {
  return same_size(one["batch"], one["edge"], one["channels"], one["layers"]);
}
nlohmann::json variant(nlohmann::json const& one, char const* name) {
  for (auto const& row : one["variants"])
    if (row["variant"] == name) return row;
  return {};
}
double us_of(LayerChain const& chain, ConvOptions const& options) {
  auto const launches = cut_launches(chain, {}, options);
  EXPECT_TRUE(launches);
  return launches ? chain_us(*launches) : 0;
}

TEST(ChainTime, PlannedChainsAreNearTheRecord) {
  std::vector<double> off;
  auto const all = recorded_chains();
  for (auto const& one : all) {
    double const us = us_of(chain_of(one), {}), measured = variant(one, "planned")["us"];
    off.push_back(std::abs(us / measured - 1));
    std::printf("%s: %.1f us, predicted %.1f\n", to_string(chain_of(one)).c_str(), measured, us);
  }
  EXPECT_LT(median(off), 0.07);
  for (double const one : off) EXPECT_LT(one, 0.14);
}

/// The fastest of the cuts that were measured in the record, by their first layer's words.
TEST(ChainTime, CutsByTimeAreThoseThatWereMeasuredAsFastest) {
  int same = 0, near = 0, count = 0;
  auto const all = recorded_chains();
  for (auto const& one : all) {
    auto const chain = chain_of(one);
    auto const best = fastest_options(chain, {});
    ASSERT_OK(best);
    ASSERT_EQ(best->cuts.size(), chain.layers.size());
    double const us = us_of(chain, *best);
    EXPECT_LE(us, us_of(chain, {}));
    std::string const tried = variant(one, "chain")["detail"];
    same += to_string(best->cuts.front()) == tried ? 1 : 0;
    // Predicted of those that were measured as the fastest.
    for (auto const& options : chain_options(chain, {}, 1000))
      if (to_string(options.cuts.front()) == tried) {
        near += us_of(chain, options) <= 1.05 * us ? 1 : 0;
        break;
      }
    ++count;
  }
  std::printf("the same cut at %d of %d, within 5 %% by prediction at %d\n", same, count, near);
  EXPECT_GE(same, 6);
  EXPECT_GE(near, 13);
}

TEST(ChainTime, RefusesWhatCannotBeCut) {
  auto chain = same_size(1, 14, 256, 2);
  chain.layers[1].kernel = 7;
  EXPECT_FALSE(fastest_options(chain, {}));
}

TEST(ChainTime, GrowsWithImagesAndLayers) {
  double before = 0;
  for (int const images : {1, 8, 32}) {
    double const us = us_of(same_size(images, 28, 128, 2), {});
    EXPECT_GT(us, before);
    EXPECT_GT(us_of(same_size(images, 28, 128, 4), {}), us);
    before = us;
  }
}

}  // namespace
}  // namespace tessera::convolution
