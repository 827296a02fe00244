// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/ways_in_layers.hpp"

#include <algorithm>
#include <array>
#include <compare>
#include <limits>

#include "kernels/decode/captured.hpp"
#include "kernels/decode/found_once.hpp"

namespace tessera::decode {
namespace {

/// The one that takes longest first.
constexpr LayerOperator k_products[] = {LayerOperator::gate_up, LayerOperator::down, LayerOperator::qkv,
                                        LayerOperator::out};
constexpr int k_rounds = 3;
/// Of the fastest layers: a way that made them slower the first time is not tried a second time.
constexpr float k_near_in_layers = 1.02f;
constexpr float k_worth_in_layers = 0.995f;  ///< of the layers as they are: less is noise

struct LayersKey {
  int device = 0;
  ProductsOf among = ProductsOf::all;
  std::array<int, 13> model = {};
  int rows = 0, sms = 0, cached = 0;
  std::array<bool, std::size(k_products)> ours = {};
  std::vector<AttentionParts> parts;

  auto operator<=>(LayersKey const&) const = default;
};
LayersKey key_of(OperatorLaunches const& operators, LayersTimed const& timed) {
  auto const& m = timed.model;
  LayersKey result;
  (void)cudaGetDevice(&result.device);
  result.among = timed.among;
  result.model = {m.layers,           m.hidden,           m.heads,          m.kv_heads, m.head_size,
                  m.intermediate,     m.window,           m.window_from,    m.gelu,     m.norms_heads,
                  m.has_qkv_shifts(), m.has_out_shifts(), m.has_up_shifts()};
  result.rows = timed.rows, result.sms = timed.sms, result.cached = timed.cached;
  for (std::size_t i = 0; i < result.ours.size(); ++i)
    if (auto const ways = operators.ways(k_products[i]); !ways.empty())
      result.ours[i] = is_ours(ways.front());
  result.parts = timed.parts;
  return result;
}
auto& known_layers() {
  static auto& all = *new FoundOnce<LayersKey, InLayers>;
  return all;
}

/// Of each of some launches of the same work the time of its fastest replay, ms: in turns, behind one that
/// warms up.
Expected<std::vector<float>> fastest_of_each(std::vector<Captured> const& graphs, cudaStream_t stream) {
  Clock clock;
  std::vector<float> result(graphs.size(), std::numeric_limits<float>::infinity());
  for (int round = 0; round <= k_rounds; ++round)
    for (std::size_t i = 0; i < graphs.size(); ++i)
      if (auto const ms = clock.milliseconds(stream, graphs[i]); ms && round > 0)
        result[i] = std::min(result[i], *ms);
  if (auto ok = check_call(clock.error(), "timing layers"); !ok) return tl::make_unexpected(ok.error());
  return result;
}
/// The first one, or the fastest, if that is clearly faster.
std::size_t worth_taking(std::vector<float> const& times) {
  auto const least = std::min_element(times.begin(), times.end());
  return *least <= k_worth_in_layers * times.front() ? static_cast<std::size_t>(least - times.begin()) : 0;
}

}  // namespace

std::optional<InLayers> known_in_layers(OperatorLaunches const& operators, LayersTimed const& timed) {
  return known_layers().find(key_of(operators, timed));
}

Expected<InLayers> find_in_layers(OperatorLaunches& operators, LayersTimed const& timed,
                                  EnqueueLayers const& layers, cudaStream_t stream) {
  auto const key = key_of(operators, timed);
  InLayers best;
  best.parts = timed.parts.front();
  std::map<LayerOperator, std::vector<Way>> tried;
  for (auto const product : k_products) tried[product] = operators.ways(product);
  for (bool const again : {false, true})
    for (auto const product : k_products) {
      auto& ways = tried[product];
      if (ways.size() < 2) continue;
      std::vector<Captured> graphs;
      for (auto const& way : ways) {
        operators.take(product, way);
        auto graph = Captured::of([&](cudaStream_t in) { return layers(in, best.parts); });
        if (!graph) return tl::make_unexpected(graph.error());
        graphs.push_back(std::move(*graph));
      }
      auto const times = fastest_of_each(graphs, stream);
      if (!times) return tl::make_unexpected(times.error());
      auto const at = worth_taking(*times);
      best.ways[product] = ways[at];
      operators.take(product, ways[at]);
      if (again) continue;
      std::vector<Way> near{ways[at]};
      for (std::size_t i = 0; i < ways.size(); ++i)
        if (i != at && (*times)[i] <= k_near_in_layers * (*times)[at]) near.push_back(ways[i]);
      ways = std::move(near);
    }
  if (timed.parts.size() > 1) {
    std::vector<Captured> graphs;
    for (auto const& parts : timed.parts) {
      auto graph = Captured::of([&](cudaStream_t in) { return layers(in, parts); });
      if (!graph) return tl::make_unexpected(graph.error());
      graphs.push_back(std::move(*graph));
    }
    auto const times = fastest_of_each(graphs, stream);
    if (!times) return tl::make_unexpected(times.error());
    best.parts = timed.parts[worth_taking(*times)];
  }
  return known_layers().keep(key, best);
}

}  // namespace tessera::decode
