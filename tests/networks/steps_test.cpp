// SPDX-License-Identifier: Apache-2.0
// Which layers may be a chain, and the cheapest way to take some, against all ways.
#include <gmock/gmock.h>

#include <random>

#include "kernels/convolution/chain_plan.hpp"
#include "networks/longest_chains.hpp"

namespace tessera::networks {
namespace {

TEST(NetworkSteps, ChainsOfResNet38) {
  auto const network = resnet_38();
  EXPECT_EQ(longest_chains(network, 1), (std::vector<Step>{{0, 32, true}}));
  // Chains begin and end beside layers that change sizes: 0, 6, 7, 14, 15, 26, 27 and 32.
  EXPECT_EQ(possible_chains(network, 1).size(), 28u);
  auto const chain = chain_of(network, 1, 14, 26);
  ASSERT_TRUE(chain);
  EXPECT_EQ(chain->layers.size(), 12u);
  EXPECT_EQ(chain->width, 28);
  EXPECT_EQ(chain->layers[3].residual, 2);
  // Cut within a block, what the first one has written is given.
  EXPECT_EQ(chain_of(network, 1, 3, 4)->layers[0].residual, convolution::k_given_residual);
  EXPECT_EQ(chain_of(network, 1, 2, 4)->layers[1].residual, 0);
}

TEST(NetworkSteps, ChainsOfResNet50) {
  auto const network = resnet_50();
  auto const steps = longest_chains(network, 4);
  // Stem, pooling, the first projection; bottlenecks of each stage with the next one's projection; average,
  // classifier.
  std::vector<Step> const expected = {{0, 1, false},  {1, 2, false},   {2, 3, false},
                                      {3, 13, true},  {13, 26, true},  {26, 45, true},
                                      {45, 54, true}, {54, 55, false}, {55, 56, false}};
  EXPECT_EQ(steps, expected);
  EXPECT_EQ(to_string(steps),
            "layers 0 to 2 one by one, layers 3 to 12 in a chain, layers 13 to 25 in a "
            "chain, layers 26 to 44 in a chain, layers 45 to 53 in a chain, layers 54 to 55 one by one");
  auto const chain = chain_of(network, 4, 3, 13);
  ASSERT_TRUE(chain);
  EXPECT_EQ(chain->layers[2].residual, convolution::k_given_residual);  // the projection
  EXPECT_EQ(chain->layers[5].residual, 3);
  EXPECT_FALSE(chain->layers[9].relu);  // the next stage's projection
}

TEST(NetworkSteps, LaunchesOfTheirOwn) {
  auto const network = resnet_50();
  auto const launches = possible_launches(network, 2);
  // All but the stem, two poolings and the classifier.
  EXPECT_EQ(launches.size(), network.layers.size() - 4);
  auto const steps = steps_with(network, launches);
  ASSERT_TRUE(check_steps(network, 2, steps));
  EXPECT_EQ(to_string(steps),
            "layers 0 to 1 one by one, layers 2 to 53 in launches of their own, layers 54 to 55 one by one");
  EXPECT_FALSE(check_steps(network, 2, steps_with(network, {{0, 1, false, true}}))) << "3 channels";
  EXPECT_FALSE(check_steps(network, 2, steps_with(network, {{3, 4, true, true}})));
  // What costs least is found among them and chains.
  auto all = launches;
  for (auto const& chain : possible_chains(network, 2)) all.push_back(chain);
  auto const found = cheapest_steps(network, all, [](Step const& step) {
    return step.chain ? -1.0 : step.launch && step.first % 2 == 0 ? 1.0 : 2.0;
  });
  for (auto const& step : found)
    EXPECT_EQ(step.launch && step.first % 2 == 0, step.first % 2 == 0 && step.first > 1 && step.first < 54);
}

TEST(NetworkSteps, NoChain) {
  auto const refused = [](Expected<convolution::LayerChain> const& chain, std::string const& text) {
    ASSERT_FALSE(chain) << text;
    EXPECT_THAT(to_text(chain.error()), testing::StartsWith("error " + text));
  };
  refused(chain_of(resnet_50(), 1, 0, 1), "E0567: convolutions of 3 channels");
  refused(chain_of(resnet_50(), 1, 1, 2), "E0573: a chain with layer 1, maxpool");
  refused(chain_of(resnet_50(), 1, 2, 4), "E0573: a chain with layer 3, layer1.0.conv1");
  refused(chain_of(resnet_50(), 1, 55, 56), "E0567: a convolution to 1000 channels");
  refused(chain_of(resnet_50(), 1, 55, 57), "E0573: a chain of layers 55 to 57 of 56");
  EXPECT_FALSE(check_steps(vgg_19(), 1, {{0, 2, true}}));
  EXPECT_TRUE(check_steps(vgg_19(), 1, steps_with(vgg_19(), {{0, 2, true}})));
}

/// Chains that may be measured can be planned, for the places of an H200.
TEST(NetworkSteps, ChainsCanBeCut) {
  for (auto const& [network, images] : {std::pair{resnet_38(), 1}, {vgg_19(), 16}, {resnet_50(), 4}})
    for (auto const& step : longest_chains(network, images)) {
      if (!step.chain) continue;
      auto const parts = cut_launches(*chain_of(network, images, step.first, step.end), {});
      ASSERT_TRUE(parts) << network.name << ", " << step.first << ": " << to_text(parts.error());
    }
}

TEST(NetworkSteps, TheCheapestOfAll) {
  auto const network = resnet_38();
  auto const chains = possible_chains(network, 1);
  std::mt19937 random(3);
  for (int round = 0; round < 30; ++round) {
    std::uniform_real_distribution<double> layer(1, 2), saved(-0.2, 0.2);
    std::vector<double> alone(network.layers.size()), together(chains.size());
    for (auto& one : alone) one = layer(random);
    for (std::size_t i = 0; i < chains.size(); ++i) {
      together[i] = 0;
      for (auto n = chains[i].first; n < chains[i].end; ++n) together[i] += alone[n];
      together[i] *= 1 + saved(random);
    }
    if (round % 3 == 0) together[random() % together.size()] = -1;
    auto const cost = [&](Step const& step) {
      if (!step.chain) return alone[step.first];
      return together[static_cast<std::size_t>(std::find(chains.begin(), chains.end(), step) -
                                               chains.begin())];
    };
    auto const sum = [&](std::vector<Step> const& steps) {
      double result = 0;
      for (auto const& step : steps) result += cost(step);
      return result;
    };
    // All subsets of chains that do not overlap.
    double least = sum(steps_with(network, {}));
    std::vector<Step> taken;
    auto const try_from = [&](auto const& self, std::size_t at) -> void {
      least = std::min(least, sum(steps_with(network, taken)));
      for (auto const& chain : chains)
        if (chain.first >= at && cost(chain) >= 0) {
          taken.push_back(chain);
          self(self, chain.end);
          taken.pop_back();
        }
    };
    try_from(try_from, 0);
    auto const found = cheapest_steps(network, chains, cost);
    ASSERT_TRUE(check_steps(network, 1, found));
    EXPECT_NEAR(sum(found), least, 1e-9);
  }
}

/// Launches of layers that cost more where the step before is none, against all ways.
TEST(NetworkSteps, TheCheapestOfAllWhereLaunchesBegin) {
  auto network = vgg_19();
  network.layers.resize(9);
  auto const launches = possible_launches(network, 1);
  ASSERT_EQ(launches.size(), 7u);  // 2 are pooling
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    std::uniform_real_distribution<double> us(1, 2);
    std::vector<double> alone(9), launched(9);
    for (auto& one : alone) one = us(random);
    for (auto& one : launched) one = us(random) - 0.4;
    double const begins = us(random) / 2;
    auto const sum = [&](std::vector<Step> const& steps) {
      double result = 0;
      for (std::size_t i = 0; i < steps.size(); ++i) {
        bool const launch = steps[i].launch;
        result += launch ? launched[i] : alone[i];
        if (launch && (i == 0 || !steps[i - 1].launch)) result += begins;
      }
      return result;
    };
    double least = sum(steps_with(network, {}));
    for (unsigned some = 0; some < 1u << launches.size(); ++some) {
      std::vector<Step> taken;
      for (std::size_t i = 0; i < launches.size(); ++i)
        if ((some >> i & 1u) != 0) taken.push_back(launches[i]);
      least = std::min(least, sum(steps_with(network, taken)));
    }
    auto const found = cheapest_steps(
        network, launches,
        [&](Step const& step) { return step.launch ? launched[step.first] : alone[step.first]; }, begins);
    ASSERT_EQ(found.size(), 9u);
    EXPECT_NEAR(sum(found), least, 1e-9);
  }
}

}  // namespace
}  // namespace tessera::networks
