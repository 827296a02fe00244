// SPDX-License-Identifier: Apache-2.0
// The definitions of what check() computes, without any cleverness.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "tessera/check/check.hpp"

namespace tessera::brute_force {

using Coordinates = std::array<std::int64_t, k_max_rank>;  // the last dimension first: sorts in launch order

inline Stage const& stage_at(Pipeline const& p, int s) { return p.stages[static_cast<std::size_t>(s)]; }

/// All coordinates that a consumer tile names, existing or not.
inline std::set<Coordinates> named(Pipeline const& pipeline, Dependence const& dependence,
                                   std::int64_t tile) {
  auto const at = tile_of(stage_at(pipeline, dependence.consumer).tile_grid(), tile);
  auto const grid = stage_at(pipeline, dependence.producer).tile_grid();
  std::set<Coordinates> result;
  for (auto const& access : dependence.accesses) {
    std::vector<Coordinates> points{{}};
    for (std::size_t d = 0; d < access.ranges.size(); ++d) {
      std::vector<Coordinates> longer;
      for (auto const& point : points)
        for (auto c = access.ranges[d].begin.evaluate(at.at); c < access.ranges[d].end.evaluate(at.at); ++c) {
          if (access.ranges[d].clamp && (c < 0 || c >= grid.extent[d])) continue;
          longer.push_back(point);
          longer.back()[k_max_rank - 1 - d] = c;
        }
      points = std::move(longer);
    }
    result.insert(points.begin(), points.end());
  }
  return result;
}

/// Linear tile, or nullopt if it does not exist.
inline std::optional<std::int64_t> existing(TileGrid const& grid, Coordinates const& point) {
  Tile tile;
  for (int d = 0; d < k_max_rank; ++d) {
    auto const c = point[static_cast<std::size_t>(k_max_rank - 1 - d)];
    if (c < 0 || c >= grid.extent[d]) return std::nullopt;
    tile.at[d] = static_cast<int>(c);
  }
  return linear_of(grid, tile);
}

/// By consumer tile.
inline std::vector<std::set<std::int64_t>> producers(Pipeline const& pipeline, Dependence const& dependence) {
  auto const grid = stage_at(pipeline, dependence.producer).tile_grid();
  std::vector<std::set<std::int64_t>> result;
  for (std::int64_t t = 0; t < stage_at(pipeline, dependence.consumer).tiles(); ++t) {
    result.emplace_back();
    for (auto const& point : named(pipeline, dependence, t))
      if (auto const tile = existing(grid, point)) result.back().insert(*tile);
  }
  return result;
}

inline DependenceFacts facts(Pipeline const& pipeline, Dependence const& dependence) {
  DependenceFacts result;
  std::set<std::int64_t> read;
  bool first = true;
  for (auto const& tiles : producers(pipeline, dependence)) {
    auto const count = static_cast<std::int64_t>(tiles.size());
    result.pairs += count;
    result.min_producers = first ? count : std::min(result.min_producers, count);
    result.max_producers = std::max(result.max_producers, count);
    read.insert(tiles.begin(), tiles.end());
    first = false;
  }
  result.unread_producers =
      stage_at(pipeline, dependence.producer).tiles() - static_cast<std::int64_t>(read.size());
  return result;
}

struct Outside {
  std::int64_t consumer_tile = 0;
  Coordinates producer{};
  std::int64_t missing = 0;  ///< different tiles named that do not exist
};
inline std::optional<Outside> outside(Pipeline const& pipeline, Dependence const& dependence) {
  auto const grid = stage_at(pipeline, dependence.producer).tile_grid();
  std::optional<Outside> result;
  std::set<Coordinates> missing;
  for (std::int64_t t = 0; t < stage_at(pipeline, dependence.consumer).tiles(); ++t)
    for (auto const& point : named(pipeline, dependence, t))
      if (!existing(grid, point)) {
        if (!result) result = Outside{t, point, 0};
        missing.insert(point);
      }
  if (result) result->missing = static_cast<std::int64_t>(missing.size());
  return result;
}

/// (stage, tile) pairs that a tile awaits, directly or not; itself included.
inline std::set<std::pair<int, std::int64_t>> awaited(Pipeline const& pipeline, int stage,
                                                      std::int64_t tile) {
  std::set<std::pair<int, std::int64_t>> seen{{stage, tile}};
  std::vector<std::pair<int, std::int64_t>> open{{stage, tile}};
  while (!open.empty()) {
    auto const [s, t] = open.back();
    open.pop_back();
    for (auto const& dependence : pipeline.dependences) {
      if (dependence.consumer != s) continue;
      auto const grid = stage_at(pipeline, dependence.producer).tile_grid();
      for (auto const& point : named(pipeline, dependence, t))
        if (auto const u = existing(grid, point); u && seen.insert({dependence.producer, *u}).second)
          open.push_back({dependence.producer, *u});
    }
  }
  return seen;
}

inline bool same_grid(Stage const& a, Stage const& b) {
  if (a.grid.size() != b.grid.size()) return false;
  for (std::size_t d = 0; d < a.grid.size(); ++d)
    if (a.grid[d].extent != b.grid[d].extent) return false;
  return true;
}

/// Do a tile of the overwriting stage and a tile of an earlier stage touch the same part of a buffer?
inline bool meet(Pipeline const& pipeline, BufferReuse const& reuse, std::int64_t writer_tile,
                 std::int64_t reader_tile) {
  auto const& writer = stage_at(pipeline, reuse.writer);
  auto const& reader = stage_at(pipeline, reuse.reader);
  if (reader.output == reuse.buffer && (!same_grid(writer, reader) || writer_tile == reader_tile))
    return true;
  for (auto const& operand : reader.operands) {
    if (operand.buffer != reuse.buffer) continue;
    bool described = false;
    for (auto const& dependence : pipeline.dependences) {
      if (dependence.consumer != reuse.reader || dependence.operand != operand.name) continue;
      described = true;
      auto const& owner = stage_at(pipeline, dependence.producer);
      if (!same_grid(writer, owner)) return true;
      for (auto const& point : named(pipeline, dependence, reader_tile))
        if (existing(owner.tile_grid(), point) == writer_tile) return true;
    }
    if (!described) return true;
  }
  return false;
}

/// The first pair that meets without the writer's tile awaiting the reader's; none: covered.
inline std::optional<std::pair<std::int64_t, std::int64_t>> uncovered(Pipeline const& pipeline,
                                                                      BufferReuse const& reuse) {
  for (std::int64_t w = 0; w < stage_at(pipeline, reuse.writer).tiles(); ++w) {
    auto const done = awaited(pipeline, reuse.writer, w);
    for (std::int64_t r = 0; r < stage_at(pipeline, reuse.reader).tiles(); ++r)
      if (meet(pipeline, reuse, w, r) && !done.contains({reuse.reader, r})) return std::pair{w, r};
  }
  return std::nullopt;
}

}  // namespace tessera::brute_force
