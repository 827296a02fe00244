// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/operator_times.hpp"

#include <algorithm>
#include <limits>

namespace tessera::decode {
namespace {

using few_tokens::TileTimes;
using Stamp = unsigned long long;

constexpr std::int64_t k_ps_per_ns = 1000;

double microseconds(Stamp from, Stamp to) {
  return static_cast<double>(static_cast<long long>(to - from)) / 1e3;
}

struct LayersOf {
  StepTimes const& times;
  int layers;

  std::size_t tiles(std::size_t stage) const {
    return times[stage].size() / static_cast<std::size_t>(layers);
  }
  TileTimes const& at(std::size_t stage, int layer, std::size_t tile) const {
    return times[stage][static_cast<std::size_t>(layer) * tiles(stage) + tile];
  }
  Stamp last_store(std::size_t stage, int layer) const {
    Stamp last = 0;
    for (std::size_t t = 0; t < tiles(stage); ++t) last = std::max(last, at(stage, layer, t).stored);
    return last;
  }
};

/// Puts each tile, in the order of their begins, into the first row that is free.
void deal_rows(Timeline& timeline) {
  std::sort(timeline.tiles.begin(), timeline.tiles.end(), [](TileRecord const& a, TileRecord const& b) {
    return std::tie(a.started, a.stage, a.tile) < std::tie(b.started, b.stage, b.tile);
  });
  std::vector<std::int64_t> free_from;
  for (auto& tile : timeline.tiles) {
    auto row =
        std::find_if(free_from.begin(), free_from.end(), [&](auto from) { return from <= tile.started; });
    if (row == free_from.end()) row = free_from.insert(row, 0);
    *row = tile.posted;
    tile.sm = static_cast<std::int32_t>(row - free_from.begin());
  }
  timeline.sms = std::max<int>(1, static_cast<int>(free_from.size()));
}

}  // namespace

char const* stage_name(Stage stage) {
  constexpr char const* k_names[] = {"qkv", "attention", "out", "gate_up", "down"};
  return k_names[stage];
}

char const* operator_name(LayerOperator which) {
  switch (which) {
    case LayerOperator::norm: return "norm";
    case LayerOperator::qkv: return stage_name(k_qkv);
    case LayerOperator::attention: return stage_name(k_attention);
    case LayerOperator::out: return stage_name(k_out);
    case LayerOperator::mlp_norm: return "mlp_norm";
    case LayerOperator::gate_up: return stage_name(k_gate_up);
    case LayerOperator::activation: return "activation";
    case LayerOperator::down: break;
  }
  return stage_name(k_down);
}

std::vector<OperatorTimes> operator_times(StepTimes const& times, int layers) {
  LayersOf const of{times, layers};
  std::vector<OperatorTimes> result;
  for (std::size_t s = 0; s < k_stages; ++s) {
    OperatorTimes sum;
    sum.name = stage_name(static_cast<Stage>(s));
    for (int layer = 1; layer < layers; ++layer) {
      auto const before = s == 0 ? of.last_store(k_down, layer - 1) : of.last_store(s - 1, layer);
      auto const end = of.last_store(s, layer);
      double const share = 1.0 / (static_cast<double>(of.tiles(s)) * (layers - 1));
      for (std::size_t t = 0; t < of.tiles(s); ++t) {
        auto const& one = of.at(s, layer, t);
        sum.waits += share * microseconds(before, one.fed);
        sum.reads += share * microseconds(one.fed, one.read);
        sum.ends += share * microseconds(one.read, one.stored);
        sum.apart += share * microseconds(one.stored, end);
      }
    }
    result.push_back(std::move(sum));
  }
  return result;
}

double attention_block_us(std::vector<OperatorTimes> const& operators) {
  double sum = 0;
  for (auto const stage : {k_qkv, k_attention, k_out})
    for (auto const& one : operators)
      if (one.name == stage_name(stage)) sum += one.all();
  return sum;
}

Timeline step_timeline(StepTimes const& times, int layers, std::string const& name,
                       std::string const& machine) {
  Timeline timeline;
  timeline.pipeline = name, timeline.machine = machine, timeline.mechanism = "one persistent launch";
  timeline.measured = true;
  Stamp begin = std::numeric_limits<Stamp>::max();
  for (auto const& stage : times)
    for (auto const& one : stage) begin = std::min(begin, one.begun);
  auto const since = [&](Stamp stamp) {
    return stamp > begin ? static_cast<std::int64_t>(stamp - begin) * k_ps_per_ns : std::int64_t{0};
  };
  double working = 0;
  for (std::size_t s = 0; s < k_stages; ++s) {
    StageSpan span;
    span.name = stage_name(static_cast<Stage>(s));
    span.tiles = static_cast<std::int64_t>(times[s].size());
    span.extent = {span.tiles / layers, layers};
    span.first_start = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < times[s].size(); ++i) {
      auto const& one = times[s][i];
      TileRecord tile;
      tile.stage = static_cast<std::int32_t>(s);
      tile.tile = static_cast<std::int64_t>(i);
      tile.started = since(one.begun);
      // What is not noted is as early as can be.
      tile.ready = std::max(tile.started, since(one.fed));
      tile.loaded = std::max(tile.ready, since(one.read));
      tile.stored = tile.posted = std::max(tile.loaded, since(one.stored));
      tile.waiting = tile.ready - tile.started;
      working += static_cast<double>(tile.posted - tile.ready);
      span.first_start = std::min(span.first_start, tile.started);
      span.last_end = std::max(span.last_end, tile.posted);
      timeline.tiles.push_back(tile);
    }
    if (times[s].empty()) span.first_start = 0;
    timeline.end = std::max(timeline.end, span.last_end);
    timeline.stages.push_back(std::move(span));
  }
  deal_rows(timeline);
  if (timeline.end > 0)
    timeline.busy = std::min(1.0, working / (static_cast<double>(timeline.end) * timeline.sms));
  return timeline;
}

}  // namespace tessera::decode
