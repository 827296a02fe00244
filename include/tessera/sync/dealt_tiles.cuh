// SPDX-License-Identifier: Apache-2.0
// Which tiles of a loop a worker computes: lists that the host made (tessera/plan/deal.hpp), read one tile
// after the other.
#pragma once

#include "config.cuh"

namespace tessera {

/// A tile of a list.
struct DealtTile {
  int period = 0;  ///< of those that the list covers
  int stage = 0;   ///< of the period
  int tile = -1;   ///< linear; -1: the list ended before

  TESSERA_HOST_DEVICE constexpr bool operator==(DealtTile const& o) const {
    return period == o.period && stage == o.stage && tile == o.tile;
  }
};

/// A list for each worker, or one list of all tiles, which the workers share. Each is in the order of
/// tickets. Behind its end it begins again, `periods` later.
struct DealtLists {
  DealtTile const* tiles = nullptr;
  int pitch = 0;  ///< from one list to the next; a shorter one ends with a tile -1
  int periods = 1;
  bool shared = false;
};

/// A worker's way through its list, or through the shared one.
class DealtWalk {
 public:
  /// `periods`: of the launch.
  TESSERA_HOST_DEVICE DealtWalk(DealtLists const& lists, int worker, long long periods)
      : tiles_(lists.tiles + (lists.shared ? 0LL : 1LL * worker * lists.pitch)),
        pitch_(lists.pitch),
        covered_(lists.periods),
        periods_(periods) {}

  /// The tile at a place, counted over all repetitions of the list. Places grow: one by one in a worker's own
  /// list, as they were drawn in a shared one. `period` is the launch's. False: the launch has no tile there,
  /// nor at any later place.
  TESSERA_HOST_DEVICE bool find(long long place, DealtTile& tile, long long& period) {
    for (; before_ < periods_; before_ += covered_) {
      if (place - begin_ >= pitch_) {
        begin_ += pitch_;
        continue;
      }
      tile = tiles_[place - begin_];
      period = before_ + tile.period;
      if (tile.tile >= 0) return period < periods_;
      if (place == begin_) return false;  // nothing is in the list
      begin_ = place;
    }
    return false;
  }

 private:
  DealtTile const* tiles_;
  int pitch_;
  int covered_;
  long long periods_;
  long long begin_ = 0;   ///< place at which this repetition begins
  long long before_ = 0;  ///< periods before it
};

}  // namespace tessera
