// SPDX-License-Identifier: Apache-2.0
// Which of two streams of memory accesses goes next into a channel's queue.
#pragma once

#include <cstdint>

#include "tessera/measure/overlap_hardware.hpp"
#include "tessera/overlap/machine.hpp"

namespace tessera::overlap {

enum class Stream : std::uint8_t { compute, communication };

/// T3 (section 4.5). Round robin takes turns and falls back to the other stream where one is empty. The
/// communication-aware policy always prefers compute and lets communication in only while the queue is below
/// a threshold, unless it has waited too long; the threshold follows from how full the queue was while the
/// kernel ran alone, that is until the first communication arrives.
class Arbiter {
 public:
  Arbiter(OverlapHardware const& hardware, Arbitration policy, int fixed_threshold)
      : hardware_(&hardware), policy_(policy), threshold_(fixed_threshold), fixed_(fixed_threshold > 0) {}

  static constexpr int k_neither = -1;

  /// The stream to admit an access from, or k_neither. `occupancy` is the queue's, which has room.
  int choose(bool compute, bool communication, int occupancy, std::int64_t cycle) {
    if (policy_ == Arbitration::round_robin) return round_robin(compute, communication);
    if (policy_ == Arbitration::compute_first) return compute ? 0 : communication ? 1 : k_neither;
    if (communication && !waiting_) since_ = cycle;
    waiting_ = communication;
    if (communication) {
      auto const threshold = decide();
      bool const starved = hardware_->starvation_cycles > 0 && cycle >= starved_at();
      if (starved || (!compute && (drained_ || occupancy < threshold))) {
        since_ = cycle;
        return 1;
      }
    }
    return compute ? 0 : k_neither;
  }

  /// The kernel is over: nothing is left to protect.
  void drain() { drained_ = true; }

  /// Cycle from which a waiting communication access goes first, for those who skip idle cycles.
  std::int64_t starved_at() const {
    bool const can = waiting_ && hardware_->starvation_cycles > 0;
    return can ? since_ + hardware_->starvation_cycles : INT64_MAX;
  }

  /// The queue held `occupancy` requests for `cycles` cycles, all of them the kernel's.
  void watch(int occupancy, std::int64_t cycles) {
    if (decided_) return;
    watched_ += cycles;
    held_ += occupancy * cycles;
  }

  double intensity() const {
    return watched_ > 0
               ? static_cast<double>(held_) / static_cast<double>(watched_) / hardware_->queue_entries
               : 0;
  }
  int threshold() const { return threshold_; }

 private:
  int round_robin(bool compute, bool communication) {
    if (!compute && !communication) return k_neither;
    int const stream = compute && communication ? next_ : compute ? 0 : 1;
    next_ = 1 - stream;
    return stream;
  }

  int decide() {
    if (!decided_) {
      decided_ = true;
      if (!fixed_) {
        auto const full = intensity();
        threshold_ = full >= hardware_->occupancy_high     ? hardware_->threshold_high
                     : full >= hardware_->occupancy_medium ? hardware_->threshold_medium
                     : full >= hardware_->occupancy_low    ? hardware_->threshold_low
                                                           : hardware_->queue_entries;
      }
    }
    return threshold_;
  }

  OverlapHardware const* hardware_;
  Arbitration policy_;
  int threshold_;
  bool fixed_;
  bool decided_ = false;
  bool drained_ = false;
  int next_ = 0;
  bool waiting_ = false;
  std::int64_t since_ = 0;  ///< communication's last request, or when it began to wait for its first
  std::int64_t watched_ = 0;
  std::int64_t held_ = 0;
};

}  // namespace tessera::overlap
