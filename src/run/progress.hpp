// SPDX-License-Identifier: Apache-2.0
// What the interpreter's threads know of each other. Everything here is relaxed on purpose: it must not order
// the tiles' data, or ThreadSanitizer could not see a missing wait.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "tessera/sync/wait.cuh"

namespace tessera::run {

enum class BlockState : std::uint8_t { not_started, started, posted };

struct Progress {
  std::atomic<std::uint64_t> steps{0};  ///< grows whenever any thread gets on
  std::atomic<int> computing{0};        ///< threads inside a tile function
  StallRecord stall;
  std::chrono::nanoseconds patience{};

  void step() { steps.fetch_add(1, std::memory_order_relaxed); }
  bool stopped() const { return load_acquire<Scope::device>(&stall.state) != 0; }
  /// Makes everyone leave without a stall report (a tile function threw).
  void stop() { claim(&stall.state, 0, 1); }
};

/// A small generator for one thread: where to yield must differ from seed to seed, and nothing else matters.
class Jitter {
 public:
  explicit Jitter(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0xD1B54A32D192ED03u) {}
  std::uint32_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::uint32_t>(state_ >> 32);
  }
  /// Sometimes lets other threads go first.
  void pause() {
    auto const roll = next() % 16;
    if (roll < 5) std::this_thread::yield();
    if (roll == 15) std::this_thread::sleep_for(std::chrono::microseconds(next() % 200));
  }

 private:
  std::uint64_t state_;
};

/// The watch of sync/wait.cuh for host threads: gives up when nobody has got on for `patience`.
struct ProgressWatch {
  Progress* progress;

  struct Patience {
    std::uint64_t steps;
    std::chrono::steady_clock::time_point since;
  };
  Patience begin() const {
    return {progress->steps.load(std::memory_order_relaxed), std::chrono::steady_clock::now()};
  }
  bool go_on(Patience& patience, WaitPlace const& place, unsigned seen, unsigned expected) const {
    if (!still_moving(patience)) {
      if (!progress->stopped() && claim(&progress->stall.state, 0, 1)) {
        auto& record = progress->stall;
        record.stage = place.stage;
        record.tile = place.tile;
        record.semaphore = place.semaphore;
        record.seen = seen;
        record.expected = expected;
        record.waited_ns = static_cast<unsigned long long>(progress->patience.count());
        store_release<Scope::device>(&record.state, 2);
      }
      return false;
    }
    std::this_thread::yield();
    return true;
  }
  /// False once the run has stopped, or has not moved for too long.
  bool still_moving(Patience& patience) const {
    if (progress->stopped()) return false;
    auto const steps = progress->steps.load(std::memory_order_relaxed);
    auto const now = std::chrono::steady_clock::now();
    if (steps != patience.steps || progress->computing.load(std::memory_order_relaxed) > 0) {
      patience = {steps, now};
      return true;
    }
    return now - patience.since < progress->patience;
  }
  static constexpr bool may_stop = true;
};

}  // namespace tessera::run
