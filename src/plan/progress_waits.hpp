// SPDX-License-Identifier: Apache-2.0
// What every block of a plan waits for and posts to, and the run of a plan without times or room.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/plan/plan.hpp"

namespace tessera::progress {

struct Need {
  std::int64_t semaphore;
  std::int64_t value;

  auto operator<=>(Need const&) const = default;
};

/// awaited_by() and the reuse edges of all tiles; tiles that read the same boxes share a list.
class Waits {
 public:
  explicit Waits(Plan const& plan);

  /// Lists of a tile: one for each dependence and reuse edge of its stage. Indices into needs().
  std::vector<std::int32_t> const& lists_of(int stage, std::int64_t tile) const {
    auto const& of_stage = stages_[static_cast<std::size_t>(stage)];
    return of_stage.empty() ? none_ : of_stage[static_cast<std::size_t>(tile)];
  }
  std::vector<Need> const& needs(std::int32_t list) const { return lists_[static_cast<std::size_t>(list)]; }
  bool waits(int stage, std::int64_t tile) const;

  /// Number of blocks of a stage that wait for something.
  std::int64_t waiting_blocks(int stage) const;
  std::int64_t semaphores() const { return semaphores_; }
  Plan const& plan() const { return plan_; }

 private:
  void add_dependence(PlannedDependence const& planned);
  void add_reuse(ReuseEdge const& edge);

  Plan const& plan_;
  std::vector<std::vector<std::vector<std::int32_t>>> stages_;  ///< [stage][tile]; empty: nobody waits
  std::vector<std::vector<Need>> lists_;
  std::vector<std::int32_t> none_;
  std::int64_t semaphores_ = 0;
};

struct Block {
  int stage;
  std::int64_t index;  ///< block number in its stage

  auto operator<=>(Block const&) const = default;
};

/// Semaphore counts while blocks start and, as soon as they can, finish. Finishing at once loses no stuck
/// state: posts only ever let more blocks go on (docs/design/progress.md).
class Flow {
 public:
  explicit Flow(Waits const& waits);

  /// Starts a block. Appends to `finished` every block that finishes through it, itself perhaps included.
  void start(Block block, std::vector<Block>& finished);

  bool is_started(Block block) const { return state_of(block) != State::unstarted; }
  bool is_finished(Block block) const { return state_of(block) == State::finished; }
  bool all_finished() const { return left_ == 0; }
  /// First need that is not met. Precondition: the block is started and not finished.
  Need unmet(Block block) const;
  std::int64_t count(std::int64_t semaphore) const { return counts_[static_cast<std::size_t>(semaphore)]; }
  Waits const& waits() const { return waits_; }

 private:
  enum class State : unsigned char { unstarted, started, finished };
  State state_of(Block block) const {
    return states_[static_cast<std::size_t>(block.stage)][static_cast<std::size_t>(block.index)];
  }
  bool find_unmet(Block block, Need& need) const;

  Waits const& waits_;
  std::vector<std::vector<State>> states_;
  std::vector<std::int64_t> counts_;
  std::vector<std::vector<std::pair<std::int64_t, Block>>> watchers_;  ///< by semaphore: value, block
  std::vector<Block> ready_;
  std::int64_t left_ = 0;
};

}  // namespace tessera::progress
