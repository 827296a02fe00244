// SPDX-License-Identifier: Apache-2.0
#include "awaited_lists.hpp"

#include <algorithm>
#include <unordered_set>

namespace tessera::simulation {
namespace {

/// Indices of the coordinates [begin, end) under one dimension's map, in the order of first occurrence.
void indices_of(DimensionMap const& map, int begin, int end, std::vector<int>& out) {
  out.clear();
  switch (map.grouping) {
    case Grouping::each:
      for (int c = begin; c < end; ++c) out.push_back(c);
      break;
    case Grouping::all: out.push_back(0); break;
    case Grouping::block:
      for (int i = begin / map.width; i <= (end - 1) / map.width; ++i) out.push_back(i);
      break;
    case Grouping::stride:
      for (int c = begin; c < std::min(end, begin + map.width); ++c) out.push_back(c % map.width);
      break;
  }
}

}  // namespace

AwaitedLists::AwaitedLists(Plan const& plan, int stage) {
  auto const& stages = plan.pipeline.stages;
  grid_ = stages[static_cast<std::size_t>(stage)].tile_grid();
  for (auto const& planned : plan.dependences) {
    auto const& dependence = plan.pipeline.dependences[static_cast<std::size_t>(planned.dependence)];
    if (dependence.consumer != stage || planned.semaphore_set < 0) continue;
    dependences_.push_back({planned.dependence, TileRelation(plan.pipeline, dependence),
                            &plan.semaphores[static_cast<std::size_t>(planned.semaphore_set)],
                            stages[static_cast<std::size_t>(dependence.producer)].tile_grid()});
    for (int d = 0; d < k_max_rank; ++d) used_[d] |= dependences_.back().relation.uses(d);
  }
  std::int64_t keys = 1;
  for (int d = 0; d < k_max_rank; ++d)
    if (used_[d]) keys *= grid_.extent[d];
  if (!dependences_.empty()) {
    first_.assign(static_cast<std::size_t>(keys), -1);
    count_.assign(static_cast<std::size_t>(keys), 0);
    met_.assign(static_cast<std::size_t>(keys), 0);
  }
}

std::int64_t AwaitedLists::key_of(std::int64_t tile) const {
  std::int64_t key = 0;
  std::int64_t factor = 1;
  for (int d = 0; d < k_max_rank; ++d) {
    auto const coordinate = tile % grid_.extent[d];
    tile /= grid_.extent[d];
    if (!used_[d]) continue;
    key += coordinate * factor;
    factor *= grid_.extent[d];
  }
  return key;
}

void AwaitedLists::append(One const& one, std::int64_t tile) {
  auto const begin = scratch_.size();
  auto const add = [&](std::int64_t semaphore) {
    scratch_.push_back({one.set->first + semaphore, 0, one.dependence});
  };
  one.relation.boxes_of(tile, boxes_);
  if (boxes_.size() == 1 && !one.set->map.is_table()) {
    // The first tile of each group grows with the group's index, so the nested order is that of first need.
    std::vector<int> indices[k_max_rank];
    int extent[k_max_rank];
    for (int d = 0; d < k_max_rank; ++d) {
      indices_of(one.set->map.dimension[d], boxes_[0].begin[d], boxes_[0].end[d], indices[d]);
      extent[d] = one.set->map.dimension[d].count(one.producer.extent[d]);
    }
    for (auto const i3 : indices[3])
      for (auto const i2 : indices[2])
        for (auto const i1 : indices[1])
          for (auto const i0 : indices[0])
            add(i0 + static_cast<std::int64_t>(extent[0]) *
                         (i1 + static_cast<std::int64_t>(extent[1]) *
                                   (i2 + static_cast<std::int64_t>(extent[2]) * i3)));
  } else {
    one.relation.producers_of(tile, producers_);
    std::unordered_set<std::int64_t> seen;
    for (auto const producer : producers_) {
      auto const semaphore = one.set->map.semaphore_of(one.producer, tile_of(one.producer, producer));
      if (seen.insert(semaphore).second) add(semaphore);
    }
  }
  auto const count = static_cast<double>(scratch_.size() - begin);
  for (auto i = begin; i < scratch_.size(); ++i)
    scratch_[i].fraction = static_cast<double>(i - begin) / count;
}

AwaitedLists::List AwaitedLists::of(std::int64_t tile) {
  if (dependences_.empty()) return {};
  auto const key = static_cast<std::size_t>(key_of(tile));
  if (first_[key] < 0) {
    scratch_.clear();
    for (auto const& one : dependences_) append(one, tile);
    if (dependences_.size() > 1)
      std::stable_sort(scratch_.begin(), scratch_.end(), [](Wait const& a, Wait const& b) {
        return a.fraction != b.fraction ? a.fraction < b.fraction : a.dependence < b.dependence;
      });
    first_[key] = static_cast<std::int64_t>(waits_.size());
    count_[key] = static_cast<std::int32_t>(scratch_.size());
    waits_.insert(waits_.end(), scratch_.begin(), scratch_.end());
  }
  return {static_cast<std::int64_t>(key), first_[key], count_[key]};
}

}  // namespace tessera::simulation
