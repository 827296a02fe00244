// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/policies.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "plan/dimension_choices.hpp"
#include "tessera/describe/tile_relation.hpp"

namespace tessera {
namespace {

std::string word(DimensionMap const& map) {
  switch (map.grouping) {
    case Grouping::each: return "Each";
    case Grouping::all: return "All";
    case Grouping::block: return "Block" + std::to_string(map.width);
    case Grouping::stride: return "Stride" + std::to_string(map.width);
  }
  return "";
}

using Boxes = std::vector<TileRelation::Box>;

/// What one consumer tile waits for under a map: semaphores, and the tiles that they stand for.
struct Wait {
  std::int64_t semaphores = 0;
  std::int64_t tiles = 0;
};

/// The same of one box and a product of maps: dimension by dimension.
Wait wait_of(SemaphoreMap const& map, TileGrid const& grid, TileRelation::Box const& box) {
  Wait wait{1, 1};
  for (int d = 0; d < k_max_rank; ++d) {
    auto const& one = map.dimension[d];
    int const count = one.count_in(box.begin[d], box.end[d]);
    std::int64_t tiles = 0;
    if (one.grouping == Grouping::each)
      tiles = count;
    else
      for (int i = 0; i < count; ++i) tiles += one.members(grid.extent[d], one.index_in(box.begin[d], i));
    wait.semaphores *= count;
    wait.tiles *= tiles;
  }
  return wait;
}

Wait wait_of(PolicyMap const& map, TileGrid const& grid, Boxes const& boxes,
             std::vector<std::int64_t>& scratch) {
  if (boxes.size() == 1 && !map.is_table()) return wait_of(map, grid, boxes.front());
  scratch.clear();
  for (auto const& box : boxes) {
    Tile tile;
    for (tile.at[3] = box.begin[3]; tile.at[3] < box.end[3]; ++tile.at[3])
      for (tile.at[2] = box.begin[2]; tile.at[2] < box.end[2]; ++tile.at[2])
        for (tile.at[1] = box.begin[1]; tile.at[1] < box.end[1]; ++tile.at[1])
          for (tile.at[0] = box.begin[0]; tile.at[0] < box.end[0]; ++tile.at[0]) {
            auto const semaphore = map.semaphore_of(grid, tile);
            if (scratch.empty() || scratch.back() != semaphore) scratch.push_back(semaphore);
          }
  }
  std::sort(scratch.begin(), scratch.end());
  scratch.erase(std::unique(scratch.begin(), scratch.end()), scratch.end());
  Wait wait{static_cast<std::int64_t>(scratch.size()), 0};
  for (auto const semaphore : scratch) wait.tiles += map.tiles_of(grid, semaphore);
  return wait;
}

std::string key_of(Boxes const& boxes) {
  return {reinterpret_cast<char const*>(boxes.data()), boxes.size() * sizeof(TileRelation::Box)};
}

bool same(Boxes const& a, Boxes const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(TileRelation::Box)) == 0);
}

std::int64_t volume(Boxes const& boxes) {
  std::int64_t sum = 0;
  for (auto const& box : boxes) {
    std::int64_t tiles = 1;
    for (int d = 0; d < k_max_rank; ++d) tiles *= box.end[d] - box.begin[d];
    sum += tiles;
  }
  return sum;
}

/// Fills in the costs of all policies in one pass over the consumer grid. Consumer tiles that read the same
/// many tiles (a row of a GEMM) are worked out once; few (a convolution's) are counted faster than looked up.
void count_costs(Pipeline const& pipeline, Dependence const& dependence, std::vector<Policy>& policies) {
  constexpr std::int64_t k_few = 16;
  TileRelation const relation(pipeline, dependence);
  auto const& grid = relation.producer_grid();
  auto const consumer_splits = pipeline.stages[static_cast<std::size_t>(dependence.consumer)].splits;
  auto const producer_splits = pipeline.stages[static_cast<std::size_t>(dependence.producer)].splits;

  std::unordered_map<std::string, std::vector<Wait>> known;
  Boxes boxes, before;
  std::vector<Wait> few(policies.size());
  auto const* waits = &few;
  std::vector<std::int64_t> scratch;
  auto const count = [&](std::vector<Wait>& into) {
    for (std::size_t p = 0; p < policies.size(); ++p)
      into[p] = wait_of(policies[p].map, grid, boxes, scratch);
  };
  for (std::int64_t tile = 0; tile < relation.consumer_grid().tiles(); ++tile) {
    relation.boxes_of(tile, boxes);
    bool const differ = tile == 0 || !same(boxes, before);
    if (differ && volume(boxes) <= k_few) {
      count(few);
      waits = &few;
    } else if (differ) {
      auto const [place, fresh] = known.try_emplace(key_of(boxes), policies.size());
      if (fresh) count(place->second);
      waits = &place->second;
    }
    for (std::size_t p = 0; p < policies.size(); ++p) {
      policies[p].waits += (*waits)[p].semaphores * consumer_splits;
      policies[p].tiles_awaited = std::max(policies[p].tiles_awaited, (*waits)[p].tiles);
    }
    boxes.swap(before);
  }
  for (auto& policy : policies) {
    policy.semaphores = policy.map.count(grid);
    // Members fall with the index in every dimension, so that semaphore 0 has the most.
    policy.posts_per_value = policy.map.tiles_of(grid, 0) * producer_splits;
    for (std::int64_t const tiles_of_one : policy.map.members)
      policy.posts_per_value = std::max(policy.posts_per_value, tiles_of_one * producer_splits);
  }
}

/// R*S of a convolution's kernel: 9, 25, 49, ... A division by a tile size is by an even number.
bool is_odd_square(std::int64_t n) {
  for (std::int64_t root = 3; root <= 31; root += 2)
    if (root * root == n) return true;
  return false;
}

}  // namespace

PolicyMap normalized(PolicyMap map, TileGrid const& producer) {
  for (int d = 0; d < k_max_rank; ++d) map.dimension[d] = normalized(map.dimension[d], producer.extent[d]);
  return map;
}

bool same_map(PolicyMap const& a, PolicyMap const& b) {
  if (a.is_table() || b.is_table()) return a.table == b.table;
  for (int d = 0; d < k_max_rank; ++d)
    if (!same(a.dimension[d], b.dimension[d])) return false;
  return true;
}

PolicyMap whole_grid(TileGrid const& producer) {
  PolicyMap map;
  for (auto& dimension : map.dimension) dimension = {Grouping::all, 1};
  return normalized(map, producer);
}

bool reads_like_convolution(Dependence const& dependence) {
  constexpr int k_origin[k_max_rank] = {};
  for (auto const& access : dependence.accesses)
    for (std::size_t d = 0; d < access.ranges.size(); ++d) {
      auto const& range = access.ranges[d];
      // A halo reaches over the border at the first tile.
      if (range.clamp && range.begin.evaluate(k_origin) < 0) return true;
      if (d == 0 && range.begin.op == TileExpr::Op::floor_div && is_odd_square(range.begin.value))
        return true;
    }
  return false;
}

std::string policy_name(PolicyMap const& given, TileGrid const& producer, bool convolution) {
  if (given.is_table()) return "TableSync";
  auto const map = normalized(given, producer);
  // A dimension of one tile is neither each nor all: it fits both.
  auto const is = [&](int d, Grouping grouping) {
    return map.dimension[d].grouping == grouping || (producer.extent[d] == 1 && grouping == Grouping::all);
  };
  auto const rest_each = [&](int from) {
    for (int d = from; d < k_max_rank; ++d)
      if (!is(d, Grouping::each)) return false;
    return true;
  };
  if (rest_each(0)) return convolution ? "Conv2DTileSync" : "TileSync";
  if (map.dimension[0].grouping == Grouping::all && rest_each(1)) return "RowSync";
  if (map.dimension[0].grouping == Grouping::stride && rest_each(1)) return "StridedSync";
  if (is(0, Grouping::all) && map.dimension[1].grouping == Grouping::block && rest_each(2))
    return "BatchedRowSync";
  if (map.count(producer) == 1) return "GridSync";
  std::string name;
  for (int d = 0; d < producer.rank; ++d) name += word(map.dimension[d]);
  return name;
}

bool is_called(PolicyMap const& given, TileGrid const& producer, std::string const& name) {
  if (name == policy_name(given, producer, false) || name == policy_name(given, producer, true)) return true;
  if (given.is_table()) return false;
  if (name == "GridSync") return given.count(producer) == 1;
  auto const map = normalized(given, producer);
  auto const is = [&](int d, Grouping grouping) {
    return map.dimension[d].grouping == grouping || producer.extent[d] == 1;
  };
  auto const rest_each = [&](int from) {
    for (int d = from; d < k_max_rank; ++d)
      if (!is(d, Grouping::each)) return false;
    return true;
  };
  if (name == "TileSync" || name == "Conv2DTileSync") return rest_each(0);
  if (name == "RowSync") return is(0, Grouping::all) && rest_each(1);
  if (name == "StridedSync") return is(0, Grouping::stride) && rest_each(1);
  return name == "BatchedRowSync" && is(0, Grouping::all) && rest_each(2);
}

std::vector<Policy> generate_policies(Pipeline const& pipeline, int dependence_index) {
  auto const& dependence = pipeline.dependences[static_cast<std::size_t>(dependence_index)];
  auto const grid = pipeline.stages[static_cast<std::size_t>(dependence.producer)].tile_grid();
  auto const choices = dimension_choices(pipeline, dependence);
  bool const convolution =
      reads_like_convolution(dependence) ||
      pipeline.stages[static_cast<std::size_t>(dependence.consumer)].kernel.rfind("conv2d", 0) == 0;

  std::vector<Policy> policies;
  if (dependence.policy) {
    Policy wanted;
    wanted.name = dependence.policy->name;
    wanted.map = normalized(dependence.policy->map, grid);
    if (wanted.name.empty()) wanted.name = policy_name(wanted.map, grid, convolution);
    policies.push_back(std::move(wanted));
    count_costs(pipeline, dependence, policies);
    return policies;
  }
  for (auto const& d3 : choices[3])
    for (auto const& d2 : choices[2])
      for (auto const& d1 : choices[1])
        for (auto const& d0 : choices[0]) {
          Policy policy;
          policy.map.dimension[0] = d0;
          policy.map.dimension[1] = d1;
          policy.map.dimension[2] = d2;
          policy.map.dimension[3] = d3;
          policy.name = policy_name(policy.map, grid, convolution);
          policies.push_back(policy);
        }
  count_costs(pipeline, dependence, policies);
  return policies;
}

}  // namespace tessera
