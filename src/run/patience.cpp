// SPDX-License-Identifier: Apache-2.0
#include "run/patience.hpp"

#include <algorithm>
#include <optional>

namespace tessera::run {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

std::int64_t blocks_of(Plan const& plan, int stage) {
  auto const blocks = plan.pipeline.stages[at(stage)].blocks();
  std::int64_t const persistent = plan.stages[at(stage)].persistent_blocks;
  return persistent > 0 ? std::min(persistent, blocks) : blocks;
}

}  // namespace

bool under_way(Plan const& plan, ChainWords const& words) {
  // Counts are compared modulo 2^32, as semaphores count.
  std::optional<unsigned> launches;
  auto const differs = [&](unsigned long long count, std::int64_t each) {
    if (each <= 0) return false;
    if (!launches) {
      if (count % static_cast<unsigned long long>(each) != 0) return true;
      launches = static_cast<unsigned>(count / static_cast<unsigned long long>(each));
    }
    return static_cast<unsigned>(count) != *launches * static_cast<unsigned>(each);
  };
  for (int s = 0; s < static_cast<int>(words.started.size()); ++s)
    if (words.started[at(s)] != 0 && plan.launches[at(launch_of(plan, s))].workers == 0 &&
        differs(words.started[at(s)], blocks_of(plan, s)))
      return true;
  for (auto const& set : plan.semaphores) {
    auto const& producer = plan.pipeline.stages[at(set.producer)];
    for (std::int64_t i = 0; i < set.count; ++i)
      if (at(set.first + i) < words.semaphores.size() &&
          differs(words.semaphores[at(set.first + i)],
                  set.map.tiles_of(producer.tile_grid(), i) * producer.splits))
        return true;
  }
  return false;
}

std::optional<unsigned> whole_launches(Plan const& plan, ChainWords const& words) {
  for (auto const& set : plan.semaphores) {
    auto const& producer = plan.pipeline.stages[at(set.producer)];
    auto const each = set.map.tiles_of(producer.tile_grid(), 0) * producer.splits;
    if (set.count > 0 && each > 0 && at(set.first) < words.semaphores.size())
      return words.semaphores[at(set.first)] / static_cast<unsigned>(each);
  }
  return std::nullopt;
}

}  // namespace tessera::run
