// SPDX-License-Identifier: Apache-2.0
// Which tiles of a loop a worker computes: lists that the host made (deal.hpp), read one tile after the
// other.
#pragma once

#include "../sync/config.cuh"

namespace tessera {

/// A tile of a list.
struct DealtTile {
  int period = 0;  ///< of those that the list covers
  int stage = 0;   ///< of the period
  int tile = 0;    ///< linear

  TESSERA_HOST_DEVICE constexpr bool operator==(DealtTile const& o) const {
    return period == o.period && stage == o.stage && tile == o.tile;
  }
};

/// A list for each worker, or one list of all tiles, which the workers share. Each is in the order of
/// tickets. Behind its end it begins again, `periods` later.
struct DealtLists {
  DealtTile const* tiles = nullptr;
  int const* first = nullptr;  ///< where each list begins; one more number: where the last one ends
  int periods = 1;
  bool shared = false;
};

/// A worker's way through its list, or through the shared one.
class DealtWalk {
 public:
  /// `periods`: of the launch.
  TESSERA_HOST_DEVICE DealtWalk(DealtLists const& lists, int worker, long long periods)
      : tiles_(lists.tiles + lists.first[lists.shared ? 0 : worker]),
        count_(lists.first[lists.shared ? 1 : worker + 1] - lists.first[lists.shared ? 0 : worker]),
        covered_(lists.periods),
        periods_(periods) {}

  /// The tile at a place, counted over all repetitions of the list; places that are asked for grow. `period`
  /// is the launch's. False: the launch has no tile there, nor at any later place.
  TESSERA_HOST_DEVICE bool find(long long place, DealtTile& tile, long long& period) {
    if (count_ == 0) return false;
    for (; place - begin_ >= count_; begin_ += count_, before_ += covered_)
      if (before_ >= periods_) return false;
    tile = tiles_[place - begin_];
    period = before_ + tile.period;
    return period < periods_;
  }

 private:
  DealtTile const* tiles_;
  int count_;
  int covered_;
  long long periods_;
  long long begin_ = 0;   ///< place at which this repetition begins
  long long before_ = 0;  ///< periods before it
};

}  // namespace tessera
