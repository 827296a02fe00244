// SPDX-License-Identifier: Apache-2.0
#include "report/arrows.hpp"

#include <algorithm>
#include <optional>

#include "tessera/describe/tile_relation.hpp"

namespace tessera::report {
namespace {

bool same_stages(Timeline const& timeline, Plan const& plan) {
  if (timeline.stages.size() != plan.pipeline.stages.size()) return false;
  for (std::size_t s = 0; s < timeline.stages.size(); ++s) {
    auto const& stage = plan.pipeline.stages[s];
    if (stage.name != timeline.stages[s].name || stage.tiles() != timeline.stages[s].tiles) return false;
  }
  return true;
}

/// [stage][tile]: the split that posted last.
std::vector<std::vector<TileRecord const*>> last_posts(Timeline const& timeline, Plan const& plan) {
  std::vector<std::vector<TileRecord const*>> last;
  for (auto const& stage : plan.pipeline.stages)
    last.emplace_back(static_cast<std::size_t>(stage.tiles()), nullptr);
  for (auto const& tile : timeline.tiles) {
    auto& place = last[static_cast<std::size_t>(tile.stage)][static_cast<std::size_t>(tile.tile)];
    if (!place || place->posted < tile.posted) place = &tile;
  }
  return last;
}

}  // namespace

std::vector<Arrow> longest_waits(Timeline const& timeline, Plan const& plan, std::size_t most) {
  if (!same_stages(timeline, plan)) return {};
  std::vector<TileRecord const*> waiting;
  for (auto const& tile : timeline.tiles)
    if (tile.waiting > 0) waiting.push_back(&tile);
  std::stable_sort(waiting.begin(), waiting.end(),
                   [](auto const* a, auto const* b) { return a->waiting > b->waiting; });
  if (waiting.size() > most) waiting.resize(most);
  std::stable_sort(waiting.begin(), waiting.end(),
                   [](auto const* a, auto const* b) { return a->started < b->started; });

  auto const last = last_posts(timeline, plan);
  std::vector<std::optional<TileRelation>> relations(plan.pipeline.dependences.size());
  std::vector<Arrow> arrows;
  std::vector<std::int64_t> producers;
  for (auto const* tile : waiting) {
    TileRecord const* latest = nullptr;
    for (std::size_t d = 0; d < relations.size(); ++d) {
      auto const& edge = plan.pipeline.dependences[d];
      if (edge.consumer != tile->stage) continue;
      if (!relations[d]) relations[d].emplace(plan.pipeline, edge);
      relations[d]->producers_of(tile->tile, producers);
      for (auto const producer : producers) {
        auto const* post = last[static_cast<std::size_t>(edge.producer)][static_cast<std::size_t>(producer)];
        if (post && (!latest || latest->posted < post->posted)) latest = post;
      }
    }
    if (latest) arrows.push_back({latest, tile});
  }
  return arrows;
}

}  // namespace tessera::report
