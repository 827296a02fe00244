// SPDX-License-Identifier: Apache-2.0
// Measured cuts of layers that are launches of their own, and chains of them: results/h100/
// convolution_layers.json.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/convolution/layer_cut.hpp"
#include "kernels/networks/network.hpp"
#include "kernels/networks/steps.hpp"

namespace tessera::convolution {

/// A graph's start, which launches that were measured by themselves share. Fitted with LayerCosts; no part of
/// what a launch takes among others.
constexpr double k_graph_us = 4.67;
constexpr int k_record_sms = 132;

struct MeasuredCut {
  std::string layer;  ///< what it is, and for how many images
  Layer what;
  ImageSize input;
  int images = 1, in_graph = 1;
  Cut cut;
  double us = 0;

  bool adds() const { return what.residual != -1; }
  ConvStage stage() const { return stage_of(input, what, images, cut, nullptr); }
  double alone_us() const { return us - k_graph_us / in_graph; }
};

struct MeasuredChain {
  std::string name;
  LayerChain chain;
  nlohmann::json record;

  double us(char const* variant) const {
    for (auto const& row : record["variants"])
      if (row["variant"] == variant) return row["us"];
    return 0;
  }
  /// Of each layer what the row says of its cut.
  std::vector<std::string> words(char const* variant) const {
    std::vector<std::string> result;
    for (auto const& row : record["variants"]) {
      if (row["variant"] != variant) continue;
      std::string const all = row["detail"], between = "; then ";
      for (std::size_t at = 0, end = 0; end != std::string::npos; at = end + between.size()) {
        end = all.find(between, at);
        result.push_back(all.substr(at, end - at));
      }
    }
    return result;
  }
};

/// A layer of the chain by itself.
inline Layer layer_alone(LayerChain const& chain, std::size_t l) {
  auto result = chain.layers[l];
  if (result.residual >= 0) result.residual = k_given_residual;
  return result;
}

/// All cuts of a layer, by their words.
inline std::map<std::string, Cut> cuts_by_words(ImageSize const& input, Layer const& layer, int images) {
  std::map<std::string, Cut> result;
  for (auto const& cut : layer_cuts(input, layer, images, k_record_sms, 1000000))
    result[to_string(cut)] = cut;
  return result;
}

/// Of results/h100 or results/h200.
inline std::vector<MeasuredChain> measured_layer_chains(std::string const& gpu = "h100") {
  std::ifstream file(TESSERA_SOURCE_DIR "/results/" + gpu + "/convolution_layers.json");
  EXPECT_TRUE(file);
  auto const record = nlohmann::json::parse(file);
  std::vector<MeasuredChain> result;
  for (auto const& one : record["same_size"]["chains"]) {
    auto const chain = same_size(one["batch"], one["edge"], one["channels"], one["layers"]);
    result.push_back({to_string(chain), chain, one});
  }
  auto const network = networks::resnet_38();
  for (auto const& one : record["network"]["chains"]) {
    auto const chain = networks::chain_of(network, one["batch"], 0, network.layers.size());
    EXPECT_TRUE(chain);
    if (chain) result.push_back({to_string(*chain), *chain, one});
  }
  return result;
}

inline std::vector<MeasuredCut> measured_cuts() {
  std::vector<MeasuredCut> result;
  std::map<std::string, std::map<std::string, Cut>> known;
  for (auto const& of : measured_layer_chains()) {
    auto const sizes = sizes_of(of.chain);
    for (auto const& group : of.record["cuts"]) {
      std::size_t const l = group["layer"];
      MeasuredCut one;
      one.what = layer_alone(of.chain, l);
      one.input = sizes[l];
      one.images = of.chain.images, one.in_graph = group["in_graph"];
      one.layer = std::to_string(one.input.width) + "x" + std::to_string(one.input.height) + "x" +
                  std::to_string(one.input.channels) + " stride " + std::to_string(one.what.stride) +
                  (one.adds() ? ", adds" : "") + ", " + std::to_string(one.images) + " images";
      auto& all = known[one.layer];
      if (all.empty()) all = cuts_by_words(one.input, one.what, one.images);
      for (auto const& [words, us] : group["tried"].items()) {
        EXPECT_TRUE(all.count(words)) << one.layer << ": " << words;
        one.cut = all[words], one.us = us;
        result.push_back(one);
      }
    }
  }
  return result;
}

}  // namespace tessera::convolution
