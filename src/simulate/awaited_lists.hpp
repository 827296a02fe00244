// SPDX-License-Identifier: Apache-2.0
// Which semaphores does a tile wait for? The same answer as awaited_by(), made once per distinct list.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/describe/tile_relation.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera::simulation {

/// One wait of a main loop: the slices from `fraction` on (0 = first, 1 = end) need the semaphore.
struct Wait {
  std::int64_t semaphore;
  double fraction;
  std::int32_t dependence;
};

/// Lists of one consumer stage over all of its dependences that have semaphores: by fraction, then by
/// dependence. Tiles whose dependences do not look at a coordinate share their list.
class AwaitedLists {
 public:
  AwaitedLists(Plan const& plan, int stage);

  bool empty() const { return dependences_.empty(); }

  /// Where a tile's list lies; at(begin + i) for i < count. Valid for good.
  struct List {
    std::int64_t index = 0;
    std::int64_t begin = 0;
    std::int32_t count = 0;
  };
  List of(std::int64_t tile);
  Wait const& at(std::int64_t index) const { return waits_[static_cast<std::size_t>(index)]; }
  /// For the user: how many of a list's waits, from its beginning, are known to be met.
  std::int32_t& met(std::int64_t index) { return met_[static_cast<std::size_t>(index)]; }

 private:
  struct One {
    int dependence;
    TileRelation relation;
    SemaphoreSet const* set;
    TileGrid producer;
  };
  void append(One const& one, std::int64_t tile);
  std::int64_t key_of(std::int64_t tile) const;

  std::vector<One> dependences_;
  TileGrid grid_;
  bool used_[k_max_rank] = {};
  std::vector<std::int64_t> first_;  ///< by key: begin in waits_, or -1
  std::vector<std::int32_t> count_;
  std::vector<std::int32_t> met_;
  std::vector<Wait> waits_;
  std::vector<Wait> scratch_;
  std::vector<TileRelation::Box> boxes_;
  std::vector<std::int64_t> producers_;
};

}  // namespace tessera::simulation
