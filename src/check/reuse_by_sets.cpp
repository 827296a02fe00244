// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <optional>

#include "check/reuse.hpp"
#include "integer_sets/tile_map.hpp"

namespace tessera::check_detail {
namespace {

using integer_sets::Keep;
using integer_sets::Limit;
using integer_sets::TileMap;

TileGrid grid_of(Pipeline const& pipeline, int stage) {
  return pipeline.stages[static_cast<std::size_t>(stage)].tile_grid();
}

TileMap reads_of(Limit const& limit, Pipeline const& pipeline, Dependence const& dependence) {
  return TileMap::reads(limit, grid_of(pipeline, dependence.consumer), grid_of(pipeline, dependence.producer),
                        dependence.accesses, Keep::inside);
}

/// writer tile -> reader tiles that it awaits, through any number of stages between.
TileMap awaited(Limit const& limit, Pipeline const& pipeline, BufferReuse const& reuse) {
  std::vector<std::optional<TileMap>> to(static_cast<std::size_t>(reuse.writer) + 1);
  to.back() = TileMap::same_tile(limit, grid_of(pipeline, reuse.writer));
  for (int stage = reuse.writer; stage > reuse.reader; --stage) {
    auto const& so_far = to[static_cast<std::size_t>(stage)];
    if (!so_far) continue;
    for (auto const& dependence : pipeline.dependences) {
      if (dependence.consumer != stage || dependence.producer < reuse.reader) continue;
      auto& target = to[static_cast<std::size_t>(dependence.producer)];
      auto const step = so_far->then(reads_of(limit, pipeline, dependence));
      target = target ? target->united(step) : step;
    }
  }
  auto const& result = to[static_cast<std::size_t>(reuse.reader)];
  return result ? *result
                : TileMap::none(limit, grid_of(pipeline, reuse.writer), grid_of(pipeline, reuse.reader));
}

TileMap conflicting(Limit const& limit, Pipeline const& pipeline, BufferReuse const& reuse) {
  auto const writer = grid_of(pipeline, reuse.writer);
  auto const reader = grid_of(pipeline, reuse.reader);
  auto const conflict = conflict_of(pipeline, reuse);
  if (conflict.whole) return TileMap::everything(limit, writer, reader);
  auto result = conflict.same_tile ? TileMap::same_tile(limit, writer) : TileMap::none(limit, writer, reader);
  for (auto const dependence : conflict.dependences)
    result = result.united(
        reads_of(limit, pipeline, pipeline.dependences[static_cast<std::size_t>(dependence)]).inverse());
  return result;
}

std::int64_t linear(TileGrid const& grid, integer_sets::Point const& point) {
  Tile tile;
  for (int d = 0; d < grid.rank; ++d) tile.at[d] = static_cast<int>(point[static_cast<std::size_t>(d)]);
  return linear_of(grid, tile);
}

}  // namespace

bool decide_by_sets(Pipeline const& pipeline, BufferReuse& reuse, unsigned long operations) {
  Limit const limit(operations);
  auto const uncovered = conflicting(limit, pipeline, reuse).without(awaited(limit, pipeline, reuse));
  if (uncovered.gave_up()) return false;
  auto const none = uncovered.empty();
  if (!none) return false;
  if (!*none) {
    auto const pair = uncovered.first();
    if (!pair) return false;
    reuse.writer_tile = linear(grid_of(pipeline, reuse.writer), pair->from);
    reuse.reader_tile = linear(grid_of(pipeline, reuse.reader), pair->to);
  }
  reuse.covered = *none;
  return true;
}

}  // namespace tessera::check_detail
