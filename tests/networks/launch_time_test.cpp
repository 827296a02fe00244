// SPDX-License-Identifier: Apache-2.0
// Networks with layers in launches of their own: predictions beside the record, and what is taken where
// nothing is tuned beside what tuning took.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tessera/measure/statistics.hpp>

#include "kernels/convolution/layer_time.hpp"
#include "kernels/networks/network_time.hpp"
#include "networks/record_steps.hpp"

namespace tessera::networks {
namespace {

using Json = nlohmann::json;

/// A network for so many images in results/h100/networks_layers.json.
struct MeasuredNetwork {
  Network network;
  int images = 1;
  Json record;
  std::vector<double> launched, by_cudnn;  ///< of each layer alone; 0: not measured

  Json row(char const* variant) const {
    for (auto const& one : record["variants"])
      if (one["variant"] == variant) return one;
    return {};
  }
  double us(char const* variant) const {
    auto const found = row(variant);
    return found.is_null() ? 0 : found["us"].get<double>();
  }
  double plain_us() const { return us("cudnn"); }
  double tuned_us() const { return us("chosen") > 0 ? us("chosen") : plain_us(); }
  /// What these steps take by what was measured of each layer alone: more or less than cuDNN alone.
  double expected_us(std::vector<Step> const& steps) const {
    constexpr double graph_us = 4.67, in_graph = 8;  // tests/convolution/layer_record.hpp
    double us = plain_us();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      EXPECT_FALSE(steps[i].chain);
      if (!steps[i].launch) continue;
      auto const n = steps[i].first;
      EXPECT_GT(launched[n], 0);
      us += launched[n] - graph_us / in_graph - by_cudnn[n];
      if (i == 0 || !steps[i - 1].launch) us += convolution::k_layer_begins_us;
    }
    return us;
  }
};

std::vector<MeasuredNetwork> measured_networks() {
  std::ifstream file(TESSERA_SOURCE_DIR "/results/h100/networks_layers.json");
  EXPECT_TRUE(file);
  static std::regex const form(R"(layer (\d+): ([\d.]+) us in a launch of its own, ([\d.]+) us by cuDNN)");
  std::vector<MeasuredNetwork> result;
  auto const record = Json::parse(file);
  for (auto const& [name, of] : record.items())
    for (auto const& size : of["sizes"]) {
      MeasuredNetwork one{*network_named(name), size["images"], size, {}, {}};
      one.launched.resize(one.network.layers.size());
      one.by_cudnn.resize(one.network.layers.size());
      for (std::string const line : size["decisions"]) {
        std::smatch found;
        if (!std::regex_match(line, found, form)) continue;
        one.launched[std::stoul(found[1])] = std::stod(found[2]);
        one.by_cudnn[std::stoul(found[1])] = std::stod(found[3]);
      }
      result.push_back(std::move(one));
    }
  EXPECT_EQ(result.size(), 14u);
  return result;
}

/// Launches are cut by price here and as tuned in the record; cuDNN's times are of another GPU.
TEST(LaunchTime, NetworksAreNearTheRecord) {
  std::vector<double> off;
  for (auto const& one : measured_networks())
    for (auto const* const variant : {"cudnn", "chosen", "launches"}) {
      auto const row = one.row(variant);
      if (row.is_null()) continue;
      auto const predicted = network_us(one.network, one.images, steps_of_words(row["detail"]));
      ASSERT_TRUE(predicted);
      off.push_back(*predicted / row["us"].get<double>() - 1);
      std::printf("%s, %d images, %s: %.1f us, predicted %.1f (%+.1f %%)\n", one.network.name.c_str(),
                  one.images, variant, row["us"].get<double>(), *predicted, 100 * off.back());
    }
  for (auto& value : off) value = std::abs(value);
  std::printf("%zu networks, off by %.1f %% in the median, %.1f %% at most\n", off.size(), 100 * median(off),
              100 * quantile(off, 1));
  EXPECT_LT(median(off), 0.06);
  EXPECT_LT(quantile(off, 1), 0.2);
}

TEST(LaunchTime, TheDefaultIsNearTheTuned) {
  std::vector<double> before, now;
  int near = 0;
  for (auto const& one : measured_networks()) {
    auto const steps = usual_steps(one.network, one.images);
    double const us = one.expected_us(steps);
    before.push_back(one.plain_us() / one.tuned_us());
    now.push_back(us / one.tuned_us());
    near += now.back() <= 1.03 ? 1 : 0;
    std::printf("%s, %d images: %.1f us, by cuDNN %.1f, tuned %.1f; predicted %.1f and %.1f: %s\n",
                one.network.name.c_str(), one.images, us, one.plain_us(), one.tuned_us(),
                *network_us(one.network, one.images, steps),
                *network_us(one.network, one.images, steps_with(one.network, {})), to_string(steps).c_str());
    EXPECT_LT(us, 1.005 * one.plain_us()) << "slower than what it was";
  }
  auto const say = [](char const* what, std::vector<double> const& all) {
    std::printf("%s: %.3f times the tuned in the median, %.3f at most\n", what, median(all),
                quantile(all, 1));
  };
  say("by cuDNN alone", before);
  say("the default", now);
  std::printf("%d of %zu within 3 %%\n", near, now.size());
  EXPECT_LT(median(now), 1.02);
  EXPECT_LT(quantile(now, 1), 1.13);
  EXPECT_GE(near, 11);
}

}  // namespace
}  // namespace tessera::networks
