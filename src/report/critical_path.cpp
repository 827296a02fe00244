// SPDX-License-Identifier: Apache-2.0
#include "report/critical_path.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "tessera/describe/tile_relation.hpp"

namespace tessera::report {
namespace {

using Blocks = std::vector<TileRecord const*>;

bool is_earlier(TileRecord const* a, TileRecord const* b) { return a->started < b->started; }

/// Finds what a block was held by.
class Search {
 public:
  Search(Plan const& plan, Timeline const& timeline)
      : plan_(plan), last_of_(plan.pipeline.stages.size()), by_tile_(plan.pipeline.stages.size()) {
    for (std::size_t s = 0; s < by_tile_.size(); ++s)
      by_tile_[s].resize(static_cast<std::size_t>(plan.pipeline.stages[s].tiles()));
    for (auto const& tile : timeline.tiles) {
      auto const stage = static_cast<std::size_t>(tile.stage);
      keep_later(last_of_[stage], tile);
      keep_later(by_tile_[stage][static_cast<std::size_t>(tile.tile)], tile);
      places_[{tile.sm, tile.slot}].push_back(&tile);
    }
    for (auto& [place, blocks] : places_) std::stable_sort(blocks.begin(), blocks.end(), is_earlier);
    for (auto const& edge : plan.pipeline.dependences) relations_.emplace_back(plan.pipeline, edge);
  }

  PathBlock before(TileRecord const& tile) const {
    PathBlock best;
    auto const& place = places_.at({tile.sm, tile.slot});
    auto const at =
        std::find(std::lower_bound(place.begin(), place.end(), &tile, is_earlier), place.end(), &tile);
    if (at != place.begin()) best = {*(at - 1), HeldBy::place};
    for (std::size_t d = 0; d < relations_.size(); ++d) {
      auto const& edge = plan_.pipeline.dependences[d];
      if (edge.consumer != tile.stage) continue;
      auto const producer = static_cast<std::size_t>(edge.producer);
      if (plan_.dependences[d].semaphore_set < 0) {
        consider(best, last_of_[producer], HeldBy::stage, tile);
        continue;
      }
      std::vector<std::int64_t> tiles;
      relations_[d].producers_of(tile.tile, tiles);
      for (auto const one : tiles)
        consider(best, by_tile_[producer][static_cast<std::size_t>(one)], HeldBy::tiles, tile);
    }
    return best;
  }

 private:
  static void keep_later(TileRecord const*& kept, TileRecord const& tile) {
    if (kept == nullptr || kept->posted < tile.posted) kept = &tile;
  }
  static void consider(PathBlock& best, TileRecord const* other, HeldBy by, TileRecord const& tile) {
    if (other == nullptr || other->posted > tile.loaded) return;
    if (best.tile == nullptr || best.tile->posted < other->posted) best = {other, by};
  }

  Plan const& plan_;
  Blocks last_of_;
  std::vector<Blocks> by_tile_;
  std::map<std::pair<int, int>, Blocks> places_;
  std::vector<TileRelation> relations_;
};

}  // namespace

bool is_of(Plan const& plan, Timeline const& timeline) {
  auto const& stages = plan.pipeline.stages;
  return timeline.gpus == 1 && timeline.stages.size() == stages.size() &&
         std::all_of(timeline.tiles.begin(), timeline.tiles.end(), [&](TileRecord const& tile) {
           return tile.stage >= 0 && tile.tile >= 0 && static_cast<std::size_t>(tile.stage) < stages.size() &&
                  tile.tile < stages[static_cast<std::size_t>(tile.stage)].tiles();
         });
}

std::vector<PathBlock> critical_path(Plan const& plan, Timeline const& timeline) {
  if (timeline.tiles.empty() || !is_of(plan, timeline)) return {};
  Search const search(plan, timeline);
  auto const last = std::max_element(timeline.tiles.begin(), timeline.tiles.end(),
                                     [](auto const& a, auto const& b) { return a.posted < b.posted; });
  std::vector<PathBlock> path = {{&*last, HeldBy::nothing}};
  for (;;) {
    auto const before = search.before(*path.back().tile);
    // Each begins before the next one: no circle.
    if (before.tile == nullptr || before.tile->started >= path.back().tile->started) break;
    path.back().held_by = before.held_by;
    path.push_back({before.tile, HeldBy::nothing});
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace tessera::report
