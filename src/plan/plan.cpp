// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/plan.hpp"

#include <algorithm>

#include "tessera/describe/tile_relation.hpp"

namespace tessera {

BlockWork block_work(Stage const& stage, StagePlan const& plan, std::int64_t block) {
  if (plan.custom_order)
    return {plan.order.tile_at(block / stage.splits), static_cast<int>(block % stage.splits)};
  auto const tiles = stage.tiles();
  return {block % tiles, static_cast<int>(block / tiles)};
}

std::vector<Awaited> awaited_by(Plan const& plan, int dependence, std::int64_t consumer_tile) {
  std::vector<Awaited> awaited;
  int const set_index = plan.dependences[static_cast<std::size_t>(dependence)].semaphore_set;
  if (set_index < 0) return awaited;
  auto const& set = plan.semaphores[static_cast<std::size_t>(set_index)];
  auto const& producer = plan.pipeline.stages[static_cast<std::size_t>(set.producer)];
  auto const grid = producer.tile_grid();
  TileRelation const relation(plan.pipeline, plan.pipeline.dependences[static_cast<std::size_t>(dependence)]);

  // Semaphores of a box repeat with the grouping, so only the last few can be duplicates in practice; a
  // sorted copy decides exactly.
  std::vector<std::int64_t> tiles;
  relation.producers_of(consumer_tile, tiles);
  std::vector<std::int64_t> seen;
  for (auto const tile : tiles) {
    auto const semaphore = set.map.semaphore_of(grid, tile_of(grid, tile));
    auto const place = std::lower_bound(seen.begin(), seen.end(), semaphore);
    if (place != seen.end() && *place == semaphore) continue;
    seen.insert(place, semaphore);
    awaited.push_back({set.first + semaphore, set.map.tiles_of(grid, semaphore) * producer.splits});
  }
  return awaited;
}

std::vector<std::int64_t> posted_by(Plan const& plan, int stage, std::int64_t tile) {
  std::vector<std::int64_t> posted;
  for (auto const& set : plan.semaphores) {
    if (set.producer != stage) continue;
    auto const grid = plan.pipeline.stages[static_cast<std::size_t>(stage)].tile_grid();
    posted.push_back(set.first + set.map.semaphore_of(grid, tile_of(grid, tile)));
  }
  return posted;
}

}  // namespace tessera
