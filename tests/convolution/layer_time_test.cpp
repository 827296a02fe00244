// SPDX-License-Identifier: Apache-2.0
// What launches of layers are predicted to take, beside the record; the fit again; cuts that are taken where
// nobody has measured, beside the fastest that were.
#include "kernels/convolution/layer_time.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <tessera/measure/statistics.hpp>

#include "convolution/layer_fit.hpp"

namespace tessera::convolution {
namespace {

/// Layers that figures were not fitted to.
bool is_held_out(ImageSize const& input) { return input.width == 28; }

double mean(std::vector<double> const& all) {
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

struct Off {
  std::vector<double> all;

  void say(char const* what) const {
    std::printf("%s: %zu, off by %.1f %% in the median, %.1f %% at nine of ten, %.1f %% at most\n", what,
                all.size(), 100 * median(all), 100 * quantile(all, 0.9), 100 * quantile(all, 1));
  }
};

std::vector<MeasuredCut> looked_at() {
  auto all = measured_cuts();
  all.erase(std::remove_if(all.begin(), all.end(), [](auto const& one) { return is_held_out(one.input); }),
            all.end());
  return all;
}

TEST(LayerTime, CutsAreNearTheRecord) {
  Off fitted, held_out;
  for (auto const& one : measured_cuts())
    (is_held_out(one.input) ? held_out : fitted).all.push_back(std::abs(predicted_us(one, {}) / one.us - 1));
  fitted.say("cuts that figures were fitted to");
  held_out.say("others, of 28x28");
  EXPECT_EQ(fitted.all.size(), 1560u);
  EXPECT_EQ(held_out.all.size(), 480u);
  EXPECT_LT(median(fitted.all), 0.04);
  EXPECT_LT(quantile(fitted.all, 0.9), 0.11);
  EXPECT_LT(median(held_out.all), 0.05);
  EXPECT_LT(quantile(held_out.all, 0.9), 0.12);
}

TEST(LayerTime, FiguresAreThoseOfTheFit) {
  LayerFit const fit(looked_at());
  // From round numbers, not from what is found.
  FittedCosts round;
  round.costs = {1000, 2000, 1000, 1000, 1000, 300, 30,   0.5, 0.5,  5,   0.5,
                 1000, 1000, 50,   30,   10,   20,  2000, 0.1, 0.05, 3000};
  round.graph_us = 4;
  auto const found = fit.from(unknowns_of(round));
  for (std::size_t i = 0; i < std::size(k_figures); ++i)
    std::printf("%-18s %10.4g, fitted %10.4g\n", k_figures[i].name, LayerCosts{}.*k_figures[i].at, found[i]);
  std::printf("%-18s %10.4g, fitted %10.4g\n", "a graph's start", k_graph_us, found.back());
  double const least = fit.cost(found), ours = fit.cost(unknowns_of({}));
  std::printf("squares: %.4f, fitted %.4f\n", ours, least);
  EXPECT_LT(ours, 1.01 * least);
  for (std::size_t k = 0; k < k_unknowns; ++k) EXPECT_NEAR(unknowns_of({})[k] / found[k], 1, 0.1) << k;
}

/// Chains were not looked at either. The first launch of one finds none before it that it could start behind.
/// Chains of layers by these rows of a record: how far predictions are off, and the median of both kinds.
struct ChainsOff {
  Off two_or_four, network;
};
ChainsOff chains_beside(std::string const& gpu, std::vector<char const*> const& variants) {
  ChainsOff result;
  for (auto const& of : measured_layer_chains(gpu))
    for (auto const* const variant : variants) {
      auto const words = of.words(variant);
      auto const sizes = sizes_of(of.chain);
      EXPECT_EQ(words.size(), of.chain.layers.size());
      int const sets = of.record["sets"];
      double us = k_layer_begins_us + k_graph_us / sets;
      for (std::size_t l = 0; l < words.size(); ++l) {
        auto const layer = layer_alone(of.chain, l);
        auto const cut = cuts_by_words(sizes[l], layer, of.chain.images)[words[l]];
        us += layer_us(stage_of(sizes[l], layer, of.chain.images, cut, nullptr), layer.residual != -1,
                       k_record_sms);
      }
      (words.size() > 4 ? result.network : result.two_or_four)
          .all.push_back(std::abs(us / of.us(variant) - 1));
      std::printf("%s, %s: %.1f us, predicted %.1f\n", of.name.c_str(), variant, of.us(variant), us);
    }
  result.two_or_four.say("chains of two and four");
  result.network.say("the 32 of ResNet-38");
  return result;
}

TEST(LayerTime, ChainsAreNearTheRecord) {
  auto const off = chains_beside("h100", {"layers, planned", "layers"});
  EXPECT_EQ(off.two_or_four.all.size(), 60u);
  EXPECT_EQ(off.network.all.size(), 10u);
  EXPECT_LT(median(off.two_or_four.all), 0.06);
  EXPECT_LT(median(off.network.all), 0.1);
}

/// Another GPU and the cuts that are taken now: no figure was fitted to it.
TEST(LayerTime, ChainsAreNearTheRecordOfAnH200) {
  auto const off = chains_beside("h200", {"layers, planned"});
  EXPECT_EQ(off.two_or_four.all.size(), 30u);
  EXPECT_EQ(off.network.all.size(), 5u);
  EXPECT_LT(median(off.two_or_four.all), 0.06);
  EXPECT_LT(median(off.network.all), 0.1);
}

/// Of one layer: the least of each cut, where it was measured in two chains.
struct Tried {
  std::map<std::string, double> us;
  MeasuredCut any;

  double best() const {
    double least = 1e9;
    for (auto const& [words, one] : us) least = std::min(least, one);
    return least;
  }
};
std::map<std::string, Tried> tried_cuts() {
  std::map<std::string, Tried> result;
  for (auto const& one : measured_cuts()) {
    auto& of = result[one.layer];
    of.any = one;
    auto const [at, first] = of.us.emplace(to_string(one.cut), one.alone_us());
    if (!first) at->second = std::min(at->second, one.alone_us());
  }
  return result;
}
/// Cuts that were taken when the record was made, of layers that have none here.
std::map<std::string, std::string> taken_before() {
  std::map<std::string, std::string> result;
  for (auto const& of : measured_layer_chains()) {
    auto const sizes = sizes_of(of.chain);
    auto const words = of.words("layers, planned");
    for (auto const& group : of.record["cuts"]) {
      std::size_t const l = group["layer"];
      auto const layer = layer_alone(of.chain, l);
      result[std::to_string(sizes[l].width) + "x" + std::to_string(sizes[l].height) + "x" +
             std::to_string(sizes[l].channels) + " stride " + std::to_string(layer.stride) +
             (layer.residual != -1 ? ", adds" : "") + ", " + std::to_string(of.chain.images) + " images"] =
          words[l];
    }
  }
  return result;
}

TEST(LayerTime, TheCutThatIsTakenIsNearTheFastest) {
  std::vector<double> ours, before;
  int not_measured = 0, near = 0;
  auto const words_before = taken_before();
  for (auto const& [layer, tried] : tried_cuts()) {
    auto const& one = tried.any;
    auto const taken = to_string(layer_cuts(one.input, one.what, one.images, k_record_sms, 1).front());
    double const best = tried.best();
    if (auto const was = tried.us.find(words_before.at(layer)); was != tried.us.end())
      before.push_back(was->second / best);
    auto const found = tried.us.find(taken);
    if (found == tried.us.end()) {
      ++not_measured;
      std::printf("%s: nobody measured %s\n", layer.c_str(), taken.c_str());
      continue;
    }
    ours.push_back(found->second / best);
    near += ours.back() <= 1.05 ? 1 : 0;
    if (ours.back() > 1.05)
      std::printf("%s: %.2f us, the fastest %.2f: %s\n", layer.c_str(), found->second, best, taken.c_str());
  }
  auto const say = [](char const* what, std::vector<double> const& all) {
    std::printf("%s: %zu, %.3f times the fastest in the median, %.3f in the mean, %.3f at most\n", what,
                all.size(), median(all), mean(all), quantile(all, 1));
  };
  say("before", before);
  say("now", ours);
  std::printf("%d of %zu within 5 %%, %d not measured\n", near, ours.size(), not_measured);
  EXPECT_LE(not_measured, 10);
  EXPECT_LT(median(ours), 1.01);
  EXPECT_LT(mean(ours), mean(before));
  EXPECT_LT(quantile(ours, 1), quantile(before, 1));
  EXPECT_GE(near, static_cast<int>(0.85 * static_cast<double>(ours.size())));
}

TEST(LayerTime, GrowsWithImagesAndChannels) {
  double before = 0;
  for (int const images : {1, 4, 16, 64}) {
    auto const parts = cut_layers(same_size(images, 28, 128, 2), k_record_sms);
    ASSERT_TRUE(parts);
    double const cycles = parts->front().cut.price;
    EXPECT_GT(cycles, before);
    auto const wider = cut_layers(same_size(images, 28, 256, 2), k_record_sms);
    ASSERT_TRUE(wider);
    EXPECT_GT(wider->front().cut.price, cycles);
    before = cycles;
  }
}

}  // namespace
}  // namespace tessera::convolution
