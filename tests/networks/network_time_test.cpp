// SPDX-License-Identifier: Apache-2.0
// What networks and their chains are predicted to take, beside the records.
#include "kernels/networks/network_time.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <tessera/measure/statistics.hpp>

#include "kernels/convolution/chain_time.hpp"
#include "networks/record_steps.hpp"
#include "support/assert_ok.hpp"
#include "support/cases.hpp"

namespace tessera::networks {
namespace {

using Json = nlohmann::json;

Json record_of(char const* name) {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR "/results/h200/") + name);
  EXPECT_TRUE(file) << name;
  return Json::parse(file);
}

struct Off {
  std::vector<double> all;
  int near = 0;

  void add(std::string const& what, double predicted, double measured) {
    double const off = predicted / measured - 1;
    all.push_back(std::abs(off));
    near += std::abs(off) <= 0.1 ? 1 : 0;
    std::printf("%-46s %9.2f us, predicted %9.2f (%+.1f %%)\n", what.c_str(), measured, predicted, 100 * off);
  }
  void say(char const* what) const {
    std::printf("%s: %zu, off by %.1f %% in the median, %.1f %% at most; %d within 10 %%\n", what, all.size(),
                100 * median(all), 100 * quantile(all, 1), near);
  }
};

/// What "layers 0 to 5: 43.22 us in a chain, 30.05 us one by one" says.
struct Decided {
  Step step;
  double us = 0, alone_us = 0;
};
std::vector<Decided> decided(Json const& size) {
  static std::regex const form(R"(layers (\d+) to (\d+): ([\d.]+) us in a chain, ([\d.]+) us one by one)");
  std::vector<Decided> result;
  for (std::string const line : size["decisions"]) {
    std::smatch found;
    if (std::regex_match(line, found, form))
      result.push_back(
          {{std::stoul(found[1]), std::stoul(found[2]) + 1, true}, std::stod(found[3]), std::stod(found[4])});
  }
  return result;
}

TEST(NetworkTime, ChainsAreNearTheRecord) {
  Off fitted, held_out;
  auto const record = record_of("networks.json");
  for (auto const& [name, one] : record.items())
    for (auto const& size : one["sizes"]) {
      auto const network = network_named(name);
      ASSERT_OK(network);
      int const images = size["images"];
      double before = 0;
      for (auto const& [step, us, alone] : decided(size)) {
        if (us == before) continue;  // alike, measured once
        before = us;
        auto const predicted = step_us(*network, images, step);
        ASSERT_TRUE(predicted);
        bool const looked_at = name == "resnet-38" || (name == "resnet-50" && images != 4);
        (looked_at ? fitted : held_out)
            .add(name + ", " + std::to_string(images) + ": " + to_string({step}), *predicted, us);
      }
    }
  fitted.say("chains that figures were fitted to");
  held_out.say("others");
  EXPECT_LT(median(held_out.all), 0.05);
  EXPECT_EQ(held_out.near, static_cast<int>(held_out.all.size()));
  EXPECT_LT(median(fitted.all), 0.05);
  EXPECT_GE(fitted.near, static_cast<int>(0.9 * static_cast<double>(fitted.all.size())));
}

TEST(NetworkTime, NetworksAreNearTheRecord) {
  Off off;
  auto const record = record_of("networks.json");
  for (auto const& [name, one] : record.items())
    for (auto const& size : one["sizes"]) {
      auto const network = network_named(name);
      ASSERT_OK(network);
      int const images = size["images"];
      auto const longest =
          cheapest_steps(*network, possible_chains(*network, images), [](Step const&) { return 1.0; });
      for (auto const& row : size["variants"]) {
        std::string const variant = row["variant"];
        auto steps = steps_with(*network, {});
        if (variant == "longest chains") steps = longest;
        if (variant == "chosen") steps = steps_of_words(row["detail"]);
        auto const predicted = network_us(*network, images, steps);
        ASSERT_TRUE(predicted);
        off.add(name + ", " + std::to_string(images) + ", " + variant, *predicted, row["us"]);
      }
    }
  off.say("networks");
  EXPECT_LT(median(off.all), 0.05);
  EXPECT_EQ(off.near, static_cast<int>(off.all.size()));
}

/// What is predicted to be fastest of persistent chains and cuDNN: records of an H200 have no launches of
/// layers. Chains where they save 3 %.
std::vector<Step> chains_or_cudnn(Network const& network, int images) {
  auto const plain = steps_with(network, {});
  auto steps = cheapest_steps(network, possible_chains(network, images),
                              [&](Step const& step) { return step_us(network, images, step).value_or(-1); });
  return *network_us(network, images, steps) > 0.97 * *network_us(network, images, plain) ? plain : steps;
}

/// Measured when predictions stood.
TEST(NetworkTime, ALaterRecordIsNear) {
  auto const record = record_of("networks_threads.json");
  auto const& size = record["resnet-38"]["sizes"][0];
  int const images = size["images"];
  ASSERT_EQ(images, 8);
  auto const network = resnet_38();
  Off chains, whole;
  for (auto const& [step, us, alone] : decided(size)) {
    auto const predicted = step_us(network, images, step);
    ASSERT_TRUE(predicted);
    chains.add(to_string({step}), *predicted, us);
  }
  chains.say("chains");
  EXPECT_EQ(chains.all.size(), 7u);
  EXPECT_GE(chains.near, 6);
  EXPECT_LT(median(chains.all), 0.05);
  auto const longest =
      cheapest_steps(network, possible_chains(network, images), [](Step const&) { return 1.0; });
  for (auto const& row : size["variants"]) {
    auto const steps = row["variant"] == "cudnn" ? steps_with(network, {}) : longest;
    auto const predicted = network_us(network, images, steps);
    ASSERT_TRUE(predicted);
    whole.add(row["variant"], *predicted, row["us"]);
  }
  whole.say("networks");
  EXPECT_EQ(whole.near, 2);
  EXPECT_EQ(chains_or_cudnn(network, images), steps_with(network, {})) << "as tuned";
}

/// Of persistent chains and cuDNN, by what was measured of the steps: of cuDNN's plans each alone, of chains
/// as a whole.
TEST(NetworkTime, ThePredictedChainsAreNearTheFastest) {
  if (support::k_sanitized) GTEST_SKIP() << "half a minute there; others price networks, too";
  int near = 0, sizes = 0;
  auto const record = record_of("networks.json");
  for (auto const& [name, one] : record.items())
    for (auto const& size : one["sizes"]) {
      auto const network = network_named(name);
      ASSERT_OK(network);
      int const images = size["images"];
      auto const steps = chains_or_cudnn(*network, images);
      double gain = 0, most = 0;
      for (auto const& [step, us, alone] : decided(size))
        if (std::find(steps.begin(), steps.end(), step) != steps.end()) gain += alone - us;
      std::map<std::string, double> measured;
      for (auto const& row : size["variants"]) measured[row["variant"]] = row["us"];
      double const cudnn = measured["cudnn"];
      if (measured.count("chosen") > 0) most = cudnn - measured["chosen"];
      double const ours = cudnn - gain, best = cudnn - most;
      std::printf("%s, %d: %.1f us, tuned %.1f: %s\n", name.c_str(), images, ours, best,
                  to_string(steps).c_str());
      ++sizes, near += ours <= 1.03 * best ? 1 : 0;
    }
  EXPECT_GE(near, static_cast<int>(std::ceil(0.9 * sizes)));
}

TEST(NetworkTime, LayersOfCudnnAreNearAnotherRecord) {
  Off off;
  auto const record = record_of("convolution.json");
  for (auto const& chain : record["same_size"]["chains"]) {
    int const edge = chain["edge"], channels = chain["channels"], layers = chain["layers"],
              n = chain["batch"];
    auto const one = convolution::same_size(n, edge, channels, 1).layers[0];
    auto const us = cudnn_us({edge, edge, channels}, one, n);
    ASSERT_TRUE(us) << edge;
    for (auto const& row : chain["variants"])
      if (row["variant"] == "cudnn")
        off.add(std::to_string(layers) + " of " + std::to_string(edge) + "x" + std::to_string(edge) + ", " +
                    std::to_string(n) + " images",
                layers * *us, row["us"]);
  }
  off.say("layers of cuDNN");
  EXPECT_LT(median(off.all), 0.06);
  for (double const one : off.all) EXPECT_LT(one, 0.1);
}

TEST(NetworkTime, SaysNothingOfLayersThatWereNotMeasured) {
  convolution::Layer odd;
  odd.channels = 640, odd.kernel = 5, odd.padding = 2;
  EXPECT_FALSE(cudnn_us({13, 13, 640}, odd, 1));
  auto const small = with_edge(resnet_50(), 96);
  EXPECT_FALSE(network_us(small, 1, steps_with(small, {})));
  EXPECT_FALSE(predicted_steps(small, 1));
}

TEST(NetworkTime, UsualStepsAreWhatIsPredictedToBeFaster) {
  for (auto const& name : network_names()) {
    auto const network = *network_named(name);
    auto const plain = steps_with(network, {});
    for (int const images : {1, 2, 3, 4, 8, 16, 32}) {
      auto const steps = usual_steps(network, images);
      EXPECT_TRUE(check_steps(network, images, steps));
      EXPECT_LE(network_us(network, images, steps), network_us(network, images, plain));
    }
  }
  auto const launched = usual_steps(resnet_38(), 1);
  EXPECT_EQ(launched, steps_with(resnet_38(), possible_launches(resnet_38(), 1)));
  auto const small = with_edge(resnet_50(), 96);
  EXPECT_EQ(usual_steps(small, 1), steps_with(small, {})) << "nothing of its layers is known";
}

TEST(NetworkTime, GrowsWithImages) {
  auto const network = resnet_38();
  double before = 0;
  for (int const images : {1, 2, 4, 8, 16, 32}) {
    auto const us = network_us(network, images, steps_with(network, {}));
    ASSERT_TRUE(us);
    EXPECT_GT(*us, before);
    before = *us;
  }
}

}  // namespace
}  // namespace tessera::networks
