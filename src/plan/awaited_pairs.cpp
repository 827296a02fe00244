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
  for (auto const& dependence : pipeline.dependences) {
    TileRelation const relation(pipeline, dependence);
    std::int64_t distinct = 1;
    for (int d = 0; d < relation.consumer_grid().rank; ++d)
      if (relation.uses(d)) distinct *= relation.consumer_grid().extent[d];
    lists += distinct;
  }
  return lists;
}

}  // namespace tessera
