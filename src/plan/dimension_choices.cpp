// SPDX-License-Identifier: Apache-2.0
#include "plan/dimension_choices.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "tessera/describe/tile_relation.hpp"

namespace tessera {
namespace {

/// Consumer tiles looked at. Grouping is sound whatever is generated, so a sample only decides what is worth
/// generating; a stride that is odd meets every coordinate of the small dimensions.
constexpr std::int64_t k_sample = 4096;

struct Interval {
  int begin, end;
  auto operator<=>(Interval const&) const = default;
};
using Needs = std::set<std::vector<Interval>>;  ///< per consumer tile: disjoint, ascending

std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::vector<Interval> result;
  for (auto const& next : intervals) {
    if (!result.empty() && next.begin <= result.back().end)
      result.back().end = std::max(result.back().end, next.end);
    else
      result.push_back(next);
  }
  return result;
}

std::array<Needs, k_max_rank> needs_of(Pipeline const& pipeline, Dependence const& dependence) {
  std::array<Needs, k_max_rank> needs;
  TileRelation const relation(pipeline, dependence);
  auto const tiles = relation.consumer_grid().tiles();
  std::int64_t const step = tiles <= k_sample ? 1 : (tiles / k_sample) | 1;
  std::vector<TileRelation::Box> boxes;
  std::vector<Interval> intervals;
  for (std::int64_t tile = 0; tile < tiles; tile += step) {
    relation.boxes_of(tile, boxes);
    if (boxes.empty()) continue;
    for (int d = 0; d < relation.producer_grid().rank; ++d) {
      intervals.clear();
      for (auto const& box : boxes) intervals.push_back({box.begin[d], box.end[d]});
      needs[static_cast<std::size_t>(d)].insert(merged(intervals));
    }
  }
  return needs;
}

/// Distance between the parts of needs such as {x, x + s, x + 2s}, the same for all consumer tiles that
/// need several parts; 0 if there is none, or if it does not divide the extent.
int common_stride(Needs const& needs, int extent) {
  int stride = 0;
  for (auto const& parts : needs)
    for (std::size_t i = 1; i < parts.size(); ++i) {
      int const distance = parts[i].begin - parts[i - 1].begin;
      if (stride != 0 && distance % stride != 0) return 0;
      if (stride == 0 || distance < stride) stride = distance;
    }
  return stride > 0 && extent % stride == 0 ? stride : 0;
}

/// Distance at which most windows of neighbours follow each other: the run that one consumer tile, or one
/// row of them, moves on by. 0 if no consumer tile needs neighbours.
int common_run(Needs const& needs) {
  std::set<int> begins;
  bool wide = false;
  for (auto const& parts : needs)
    for (auto const& part : parts) {
      begins.insert(part.begin);
      wide = wide || part.end - part.begin > 1;
    }
  if (!wide) return 0;
  std::map<int, int> votes;
  for (auto it = begins.begin(); it != begins.end() && std::next(it) != begins.end(); ++it)
    ++votes[*std::next(it) - *it];
  int best = 0, best_votes = 0;
  for (auto const& [distance, count] : votes)
    if (count > best_votes) best = distance, best_votes = count;
  return best;
}

/// Distance between what several dependences read of one producer, each a stretch as long as the others' of
/// which a consumer tile needs a part: queries, keys and values of a head, in the columns of one product. 0
/// if there is none.
int stride_of_siblings(std::vector<Needs> const& siblings, int extent) {
  std::set<int> places;
  int width = 0;
  bool parts_of_it = false;
  for (auto const& needs : siblings) {
    if (needs.empty()) return 0;
    int first = extent, last = 0;
    for (auto const& parts : needs) {
      first = std::min(first, parts.front().begin);
      last = std::max(last, parts.back().end);
    }
    if (width != 0 && last - first != width) return 0;
    width = last - first;
    if (first % width != 0) return 0;
    places.insert(first);
    parts_of_it = parts_of_it || std::any_of(needs.begin(), needs.end(), [&](auto const& parts) {
                    return parts.back().end - parts.front().begin < width;
                  });
  }
  return places.size() > 1 && parts_of_it && extent % width == 0 ? width : 0;
}

bool needs_several(Needs const& needs) {
  return std::any_of(needs.begin(), needs.end(), [](auto const& parts) {
    return parts.size() > 1 || parts.front().end - parts.front().begin > 1;
  });
}

/// Neighbours of the consumer share a producer coordinate: x / (R*S) of the paper's convolution, for which
/// the tiles of the whole row are one need.
bool divides(Dependence const& dependence, int d) {
  return std::any_of(dependence.accesses.begin(), dependence.accesses.end(), [&](Access const& access) {
    return access.ranges[static_cast<std::size_t>(d)].begin.op == TileExpr::Op::floor_div;
  });
}

}  // namespace

DimensionMap normalized(DimensionMap map, int extent) {
  if (extent == 1) return {Grouping::each, 1};
  switch (map.grouping) {
    case Grouping::each:
    case Grouping::all: map.width = 1; break;
    case Grouping::block:
      if (map.width >= extent) return {Grouping::all, 1};
      if (map.width == 1) return {Grouping::each, 1};
      break;
    case Grouping::stride:
      if (map.width >= extent) return {Grouping::each, 1};
      if (map.width == 1) return {Grouping::all, 1};
      break;
  }
  return map;
}

std::array<std::vector<DimensionMap>, k_max_rank> dimension_choices(Pipeline const& pipeline,
                                                                    Dependence const& dependence) {
  auto const needs = needs_of(pipeline, dependence);
  std::vector<Needs> siblings;  // along the columns
  for (auto const& other : pipeline.dependences)
    if (other.producer == dependence.producer) siblings.push_back(needs_of(pipeline, other)[0]);
  auto const grid = pipeline.stages[static_cast<std::size_t>(dependence.producer)].tile_grid();
  std::array<std::vector<DimensionMap>, k_max_rank> choices;
  for (int d = 0; d < k_max_rank; ++d) {
    auto& list = choices[static_cast<std::size_t>(d)];
    int const extent = grid.extent[d];
    auto const add = [&](DimensionMap map) {
      map = normalized(map, extent);
      if (std::none_of(list.begin(), list.end(), [&](auto const& other) { return same(other, map); }))
        list.push_back(map);
    };
    add({Grouping::each, 1});
    if (d >= grid.rank || extent == 1) continue;
    auto const& need = needs[static_cast<std::size_t>(d)];
    bool const several = needs_several(need);
    if (int const run = common_run(need); run > 1) add({Grouping::block, run});
    if (int const stride = common_stride(need, extent); stride > 1) add({Grouping::stride, stride});
    if (int const stride = d == 0 ? stride_of_siblings(siblings, extent) : 0; stride > 1)
      add({Grouping::stride, stride});
    if (several || (d == 0 && divides(dependence, d))) add({Grouping::all, 1});
  }
  return choices;
}

}  // namespace tessera
