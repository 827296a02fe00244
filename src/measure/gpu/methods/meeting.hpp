// SPDX-License-Identifier: Apache-2.0
// Host threads that act in step.
#pragma once

#include <atomic>
#include <thread>

namespace tessera::probe {

/// Barrier of host threads that spin: a few tenths of a microsecond where each has a core. One that leaves
/// for good lets the others go on.
class Meeting {
 public:
  explicit Meeting(int threads) : threads_(threads) {}
  void meet() {
    unsigned const turn = turn_.load(std::memory_order_relaxed);
    if (come_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      come_.store(0, std::memory_order_relaxed);
      turn_.store(turn + 1, std::memory_order_release);
      return;
    }
    for (unsigned i = 1; turn_.load(std::memory_order_acquire) == turn && !broken_; ++i)
      if (i % 4096 == 0) std::this_thread::yield();
  }
  void leave() { broken_ = true; }

 private:
  int const threads_;
  std::atomic<int> come_ = 0;
  std::atomic<unsigned> turn_ = 0;
  std::atomic<bool> broken_ = false;
};

}  // namespace tessera::probe
