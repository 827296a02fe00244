// SPDX-License-Identifier: Apache-2.0
// The L2 cache: slices of operand panels and wavefronts' outputs, least recently used first out.
#pragma once

#include <cstdint>
#include <vector>

#include "simulate/event_queue.hpp"

namespace tessera::overlap {

using simulation::Picoseconds;

/// Blocks are what a kernel loads or stores as one: numbers 0, 1, 2, ... of known sizes, given by the owner.
class LastLevelCache {
 public:
  struct Block {
    std::int32_t older = -1, newer = -1;
    std::int32_t waiters = -1;  ///< first of a list, while it is being filled
    bool present = false;
    bool filling = false;
    bool dirty = false;
    Picoseconds ready = 0;
    double bytes = 0;
  };

  LastLevelCache(double capacity, std::int64_t blocks)
      : capacity_(capacity), blocks_(static_cast<std::size_t>(blocks)) {}

  Block& operator[](std::int64_t block) { return blocks_[static_cast<std::size_t>(block)]; }

  void touch(std::int64_t block) {
    unlink(static_cast<std::int32_t>(block));
    link(static_cast<std::int32_t>(block));
  }

  /// Makes room and enters the block as the newest. Calls evicted(number, block) for what is dirty and goes.
  template <class Evicted>
  void insert(std::int64_t block, double bytes, Evicted&& evicted) {
    auto& entering = (*this)[block];
    used_ += bytes;
    for (auto oldest = oldest_; oldest >= 0 && used_ > capacity_;) {
      auto& old = (*this)[oldest];
      auto const next = old.newer;
      if (!old.filling) {
        unlink(oldest);
        used_ -= old.bytes;
        old.present = false;
        if (old.dirty) evicted(oldest, old);
        old.dirty = false;
      }
      oldest = next;
    }
    entering.present = true;
    entering.bytes = bytes;
    link(static_cast<std::int32_t>(block));
  }

  /// What is still to be written back.
  double dirty_bytes() const {
    double sum = 0;
    for (auto const& block : blocks_)
      if (block.present && block.dirty) sum += block.bytes;
    return sum;
  }

 private:
  void link(std::int32_t block) {
    auto& b = (*this)[block];
    b.older = newest_;
    b.newer = -1;
    (newest_ >= 0 ? (*this)[newest_].newer : oldest_) = block;
    newest_ = block;
  }
  void unlink(std::int32_t block) {
    auto& b = (*this)[block];
    (b.older >= 0 ? (*this)[b.older].newer : oldest_) = b.newer;
    (b.newer >= 0 ? (*this)[b.newer].older : newest_) = b.older;
  }

  double capacity_;
  double used_ = 0;
  std::int32_t oldest_ = -1, newest_ = -1;
  std::vector<Block> blocks_;
};

}  // namespace tessera::overlap
