// SPDX-License-Identifier: Apache-2.0
#include "bench/convolution/cuts.hpp"

#include <algorithm>
#include <cstdio>

#include "bench/common/program.hpp"
#include "bench/common/rows.hpp"
#include "kernels/convolution/conv_loop.hpp"
#include "kernels/convolution/layer_time.hpp"

namespace tessera::bench_convolution {

using bench::check;

std::vector<std::pair<double, ConvOptions>> tried_chains(Operands const& operands,
                                                         std::vector<ConvOptions> const& all, int sets,
                                                         bench::Timer& timer) {
  std::vector<std::pair<double, ConvOptions>> tried;
  for (auto const& options : all) {
    auto some = chains_of(operands, options, sets);
    if (some.empty()) continue;
    double const us = timer.quick(work_of(some), 5);
    for (auto& one : some)
      if (auto const ended = one.finish(); !ended) std::printf("  %s\n", to_text(ended.error()).c_str());
    auto const& cut = some.front().launches().front().cut;
    std::printf("    %7.2f us, priced %6.2f: %s, ring of %d x %d\n", us, cut.price / 1755,
                to_string(cut.stages.front().cut).c_str(), cut.rings.slots, cut.rings.slot_bytes);
    tried.emplace_back(us, options);
  }
  std::stable_sort(tried.begin(), tried.end(),
                   [](auto const& a, auto const& b) { return a.first < b.first; });
  return tried;
}

void write_cuts(JsonWriter& json, std::vector<TriedCuts> const& all) {
  json.key("cuts").begin_array();
  for (auto const& one : all) {
    json.begin_object().member("layer", static_cast<int>(one.layer)).member("in_graph", one.in_graph);
    json.key("tried").begin_object();
    for (auto const& [us, cut] : one.tried) json.member(to_string(cut), bench::with_decimals(us, 2));
    json.end_object().end_object();
  }
  json.end_array();
}

ConvOptions tuned_layers(Operands const& operands, std::size_t most, int sms, int sets, bench::Timer& timer,
                         cudaStream_t stream, std::vector<TriedCuts>& measured) {
  ConvOptions result;
  result.by_layer = true;
  std::vector<LayerChain> seen;
  std::vector<Cut> taken;
  for (std::size_t l = 0; l < operands.chain.layers.size(); ++l) {
    auto const one = alone(operands, l);
    auto const before = std::find_if(seen.begin(), seen.end(), [&](LayerChain const& other) {
      return other.width == one.width && other.channels == one.channels && other.layers == one.layers;
    });
    if (before != seen.end()) {
      result.cuts.push_back(taken[static_cast<std::size_t>(before - seen.begin())]);
      continue;
    }
    auto const input = operands.sizes[l];
    std::vector<std::pair<double, Cut>> tried;
    for (auto const& cut : layer_cuts(input, one.layers[0], one.images, sms, most)) {
      ConvOptions options;
      options.by_layer = options.starts_early = true;
      options.cuts = {cut};
      auto some = layer_alone(operands, l, options, sets);
      if (some.empty()) continue;
      for (auto& chain : some)
        if (!chain.run(stream)) std::printf("  not launched\n");
      check(cudaStreamSynchronize(stream), to_string(cut).c_str());
      tried.emplace_back(timer.quick(work_of(some), 5), cut);
    }
    std::stable_sort(tried.begin(), tried.end(),
                     [](auto const& a, auto const& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < tried.size(); ++i) {
      auto const stage = stage_of(input, one.layers[0], one.images, tried[i].second, nullptr);
      auto const memory = memory_of(stage);
      std::printf("    %zux%d stride %d: %5.2f us, priced %5.2f: %s, %d tiles, ring of %d of %d, %d KB\n",
                  static_cast<std::size_t>(input.width), input.channels, one.layers[0].stride, tried[i].first,
                  layer_us(stage, one.layers[0].residual != -1, sms), to_string(tried[i].second).c_str(),
                  stage.tiles(), memory.slots, stage.slots(), memory.bytes() / 1024);
    }
    seen.push_back(one);
    taken.push_back(tried.empty() ? Cut{} : tried.front().second);
    result.cuts.push_back(taken.back());
    measured.push_back({l, sets, std::move(tried)});
  }
  return result;
}

void print_stamps(Operands const& operands, ConvOptions options, int sets, cudaStream_t stream) {
  options.keep_times = true;
  auto chains = chains_of(operands, options, sets);
  for (int round = 0; round < 2; ++round)
    for (auto& one : chains)
      if (!one.run(stream)) return;
  if (chains.empty() || !chains.back().finish()) return;
  unsigned long long first = ~0ull;
  for (std::size_t l = 0; l < operands.chain.layers.size(); ++l)
    for (auto const& tile : chains.back().times(l)) first = std::min(first, tile.begun);
  using few_tokens::TileTimes;
  for (std::size_t l = 0; l < operands.chain.layers.size(); ++l) {
    auto const tiles = chains.back().times(l);
    std::printf("    layer %zu, %zu tiles:", l, tiles.size());
    for (auto const& [name, which] : {std::pair{"begun", &TileTimes::begun},
                                      {"fed", &TileTimes::fed},
                                      {"read", &TileTimes::read},
                                      {"stored", &TileTimes::stored}}) {
      double mean = 0, last = 0;
      for (auto const& tile : tiles) {
        double const us = static_cast<double>(tile.*which - first) / 1e3;
        mean += us / static_cast<double>(tiles.size()), last = std::max(last, us);
      }
      std::printf("  %s %.2f (last %.2f)", name, mean, last);
    }
    std::printf("\n");
  }
}

}  // namespace tessera::bench_convolution
