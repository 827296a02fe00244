// SPDX-License-Identifier: Apache-2.0
#include "plan/awaited_pairs.hpp"

#include <fmt/format.h>

#include <string>
#include <unordered_set>
#include <vector>

#include "tessera/describe/tile_relation.hpp"

namespace tessera {
namespace {

constexpr auto k_most_pairs = k_most_awaited_pairs;
constexpr std::int64_t k_bytes_per_pair = 60;

std::int64_t volume(TileRelation::Box const& box) {
  std::int64_t tiles = 1;
  for (int d = 0; d < k_max_rank; ++d) tiles *= box.end[d] - box.begin[d];
  return tiles;
}

std::int64_t operations(TileExpr const& expression) {
  std::int64_t count = 1;
  for (auto const& argument : expression.arguments) count += operations(argument);
  return count;
}

/// Of one tile: to evaluate where its accesses begin and end.
std::int64_t steps_of_tile(Dependence const& dependence) {
  constexpr std::int64_t k_of_access = 20;
  std::int64_t steps = 0;
  for (auto const& access : dependence.accesses) {
    steps += k_of_access;
    for (auto const& range : access.ranges) steps += operations(range.begin) + operations(range.end);
  }
  return steps;
}

std::int64_t distinct_lists(TileRelation const& relation) {
  std::int64_t lists = 1;
  for (int d = 0; d < relation.consumer_grid().rank; ++d)
    if (relation.uses(d)) lists *= relation.consumer_grid().extent[d];
  return lists;
}

/// Pairs of all lists; some number above the limit where they are more.
std::int64_t pairs_of_lists(TileRelation const& relation) {
  std::vector<TileRelation::Box> boxes;
  auto const& grid = relation.consumer_grid();
  std::int64_t pairs = 0;
  Tile tile;
  for (bool more = true; more && pairs <= k_most_pairs;) {
    relation.boxes_of(linear_of(grid, tile), boxes);
    for (auto const& box : boxes) pairs += volume(box);
    more = false;
    for (int d = 0; d < grid.rank && !more; ++d) {
      if (!relation.uses(d)) continue;
      more = ++tile.at[d] < grid.extent[d];
      if (!more) tile.at[d] = 0;
    }
  }
  return pairs;
}

/// Tiles that several boxes name count several times.
std::int64_t listed_pairs(Pipeline const& pipeline, Dependence const& dependence) {
  TileRelation const relation(pipeline, dependence);
  std::vector<TileRelation::Box> boxes;
  std::unordered_set<std::string> known;
  std::int64_t pairs = 0;
  for (std::int64_t tile = 0; tile < relation.consumer_grid().tiles(); ++tile) {
    relation.boxes_of(tile, boxes);
    auto const bytes = boxes.size() * sizeof(TileRelation::Box);
    // Keys are kept only as long as the count can still stay below the limit.
    if (pairs <= k_most_pairs && !known.emplace(reinterpret_cast<char const*>(boxes.data()), bytes).second)
      continue;
    for (auto const& box : boxes) pairs += volume(box);
  }
  return pairs;
}

}  // namespace

std::vector<std::int64_t> awaited_pairs(CheckedPipeline const& checked) {
  std::vector<std::int64_t> pairs;
  for (std::size_t d = 0; d < checked.facts().size(); ++d)
    pairs.push_back(checked.facts()[d].max_producers > 1
                        ? listed_pairs(checked.pipeline(), checked.pipeline().dependences[d])
                        : 0);
  return pairs;
}

std::optional<Diagnostic> too_many_awaited_pairs(CheckedPipeline const& checked) {
  auto const& pipeline = checked.pipeline();
  // Most need not be looked at: a tile each, or few pairs together.
  std::int64_t at_most = 0;
  for (std::size_t d = 0; d < checked.facts().size(); ++d)
    if (checked.facts()[d].max_producers > 1)
      at_most += checked.facts()[d].pairs * std::ssize(pipeline.dependences[d].accesses);
  if (at_most <= k_most_pairs) return std::nullopt;
  std::int64_t pairs = 0;
  for (auto const of_one : awaited_pairs(checked)) pairs += of_one;
  if (pairs <= k_most_pairs) return std::nullopt;
  return Diagnostic{"E0504",
                    Severity::error,
                    pipeline.where,
                    fmt::format("lists of {} pairs of tiles, of which one waits for the other, would take "
                                "some {} MiB; at most {} are planned",
                                pairs, pairs * k_bytes_per_pair >> 20, k_most_pairs),
                    {},
                    "use larger tiles, let tiles read fewer others, or ask for stream order or PDL"};
}

std::int64_t awaited_lists(Pipeline const& pipeline) {
  std::int64_t lists = 0;
  for (auto const& dependence : pipeline.dependences)
    lists += distinct_lists(TileRelation(pipeline, dependence));
  return lists;
}

std::int64_t awaited_steps(Pipeline const& pipeline) {
  // Tiles of several boxes are sorted, and semaphores looked up for each.
  constexpr std::int64_t k_of_pair = 4, k_of_sorted_pair = 8;
  std::int64_t steps = 0;
  for (auto const& dependence : pipeline.dependences) {
    TileRelation const relation(pipeline, dependence);
    auto const pairs = pairs_of_lists(relation);
    if (pairs > k_most_pairs) continue;
    // Half of the work finds equal lists by their coordinates, the other half looks at every tile.
    auto const looks = (distinct_lists(relation) + relation.consumer_grid().tiles()) / 2;
    steps += looks * steps_of_tile(dependence) +
             pairs * (dependence.accesses.size() > 1 ? k_of_sorted_pair : k_of_pair);
  }
  return steps;
}

}  // namespace tessera
