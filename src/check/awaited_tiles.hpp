// SPDX-License-Identifier: Apache-2.0
// Which tiles of an earlier stage a tile of a later one awaits, through any number of stages between.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tessera/describe/tile_relation.hpp"

namespace tessera::check_detail {

/// Takes what it does from `steps`, and has given up when they are below 0: what it says then means nothing.
class AwaitedTiles {
 public:
  AwaitedTiles(Pipeline const& pipeline, int later, int earlier, std::int64_t& steps)
      : pipeline_(pipeline), later_(later), earlier_(earlier), steps_left_(steps) {}

  /// Call once, before the first tile.
  void make_room();

  /// Looks at a tile of the later stage; the first one is 0. false: it awaits what the tile before did.
  bool look_at(std::int64_t tile);

  /// A flag for each tile of the earlier stage: does the tile that was looked at last await it?
  std::vector<char> const& flags() const { return awaited_.front(); }

 private:
  using Box = TileRelation::Box;

  /// One dependence of a consumer, with what the tile looked at last reads through it.
  struct Step {
    Step(int index, TileRelation compiled) : producer(index), relation(std::move(compiled)) {}

    /// Looks at a tile; true if its boxes differ from the last tile's.
    bool take_boxes(std::int64_t tile, std::int64_t& steps_left);

    int producer;
    TileRelation relation;
    std::vector<Box> boxes;

   private:
    std::vector<Box> scratch_;
  };

  void mark(Step const& step);
  bool gave_up() const { return steps_left_ < 0; }
  /// Of a stage from the earlier to the later one.
  std::size_t at(int stage) const { return static_cast<std::size_t>(stage - earlier_); }

  Pipeline const& pipeline_;
  int later_, earlier_;
  std::int64_t& steps_left_;
  std::vector<std::vector<char>> awaited_;        // by stage from the earlier one, by tile
  std::vector<std::vector<std::int64_t>> lists_;  // the same as lists
  std::vector<std::vector<Step>> relations_;      // by consumer
};

}  // namespace tessera::check_detail
