// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/ways_in_layers.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "kernels/decode/captured.hpp"

namespace tessera::decode {
namespace {

/// The one that takes longest first.
constexpr LayerOperator k_products[] = {LayerOperator::gate_up, LayerOperator::down, LayerOperator::qkv,
                                        LayerOperator::out};
constexpr int k_rounds = 3;
/// Of the fastest layers: a way that made them slower the first time is not tried a second time.
constexpr float k_near_in_layers = 1.02f;

struct InLayers {
  std::map<LayerOperator, Way> ways;
  int splits = 1;
};

/// What was chosen, until the process ends.
class Chosen {
 public:
  using Key = std::array<int, 14>;

  std::optional<InLayers> find(Key const& key) const {
    std::lock_guard const lock(mutex_);
    auto const found = all_.find(key);
    return found == all_.end() ? std::nullopt : std::optional(found->second);
  }
  void keep(Key const& key, InLayers const& best) {
    std::lock_guard const lock(mutex_);
    all_.try_emplace(key, best);
  }

 private:
  mutable std::mutex mutex_;
  std::map<Key, InLayers> all_;
};
Chosen& chosen() {
  static auto& all = *new Chosen;
  return all;
}
Chosen::Key key_of(OperatorLaunches const& operators, LayersTimed const& timed) {
  auto const& m = timed.model;
  int device = 0, ours = 0;
  for (auto const product : k_products)
    if (auto const ways = operators.ways(product); !ways.empty())
      ours = 2 * ours + (is_ours(ways.front()) ? 1 : 0);
  (void)cudaGetDevice(&device);
  return {device,      static_cast<int>(timed.among),
          m.layers,    m.hidden,
          m.heads,     m.kv_heads,
          m.head_size, m.intermediate,
          m.gelu,      m.has_qkv_shifts(),
          timed.rows,  timed.sms,
          ours,        timed.splits.front()};
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
/// The fastest one's number.
std::size_t fastest(std::vector<float> const& times) {
  return static_cast<std::size_t>(std::min_element(times.begin(), times.end()) - times.begin());
}

}  // namespace

Expected<int> take_fastest_in_layers(OperatorLaunches& operators, LayersTimed const& timed,
                                     EnqueueLayers const& layers, cudaStream_t stream) {
  int const usual = timed.splits.front();
  auto const key = key_of(operators, timed);
  if (auto const known = chosen().find(key); known) {
    for (auto const& [product, way] : known->ways) operators.take(product, way);
    return known->splits;
  }
  if (!layers) return usual;
  auto const capture = [&](std::vector<Captured>& graphs, int splits) {
    auto graph = Captured::of([&](cudaStream_t in) { return layers(in, splits); });
    if (!graph) return Expected<void>(tl::make_unexpected(graph.error()));
    graphs.push_back(std::move(*graph));
    return Expected<void>();
  };
  InLayers best;
  std::map<LayerOperator, std::vector<Way>> tried;
  for (auto const product : k_products) tried[product] = operators.ways(product);
  for (bool const again : {false, true})
    for (auto const product : k_products) {
      auto& ways = tried[product];
      if (ways.size() < 2) continue;
      std::vector<Captured> graphs;
      for (auto const& way : ways) {
        operators.take(product, way);
        if (auto ok = capture(graphs, usual); !ok) return tl::make_unexpected(ok.error());
      }
      auto const times = fastest_of_each(graphs, stream);
      if (!times) return tl::make_unexpected(times.error());
      auto const at = fastest(*times);
      operators.take(product, best.ways[product] = ways[at]);
      if (again) continue;
      std::vector<Way> near;
      for (std::size_t i = 0; i < ways.size(); ++i)
        if ((*times)[i] <= k_near_in_layers * (*times)[at]) near.push_back(ways[i]);
      ways = std::move(near);
    }
  std::vector<Captured> graphs;
  for (int const splits : timed.splits)
    if (auto ok = capture(graphs, splits); !ok) return tl::make_unexpected(ok.error());
  auto const times = fastest_of_each(graphs, stream);
  if (!times) return tl::make_unexpected(times.error());
  best.splits = timed.splits[fastest(*times)];
  chosen().keep(key, best);
  return best.splits;
}

}  // namespace tessera::decode
