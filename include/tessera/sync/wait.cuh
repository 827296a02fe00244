// SPDX-License-Identifier: Apache-2.0
// Waiting for a counter, with and without a deadline.
#pragma once

#include "memory.cuh"

namespace tessera {

/// Has a monotonic 32-bit counter reached `target`? Right across the wrap at 2^32, as long as the two are
/// less than 2^31 apart (they differ by at most one launch's posts).
TESSERA_HOST_DEVICE constexpr bool reached(unsigned seen, unsigned target) {
  return static_cast<int>(seen - target) >= 0;
}

/// What a wait is about, for reports.
struct WaitPlace {
  int stage = 0;            ///< the consumer, index in the plan
  long long tile = 0;       ///< its linear tile
  long long semaphore = 0;  ///< index in the plan's array
};

/// The first wait that gave up. Zero it before use; in device memory, or in host memory that the GPU
/// can do atomics on. Read it when the launch is over.
struct StallRecord {
  unsigned state = 0;  ///< 0: none; 1: being written, everyone leaves; 2: the fields below are complete
  int stage = 0;
  long long tile = 0;
  long long semaphore = 0;
  unsigned seen = 0;
  unsigned expected = 0;
  unsigned long long waited_ns = 0;
  /// Raised to 1 as well, when the fields are complete: a word of pinned host memory, where the host sees the
  /// stall without a call of CUDA. Null: none. The host writes the address, zeroing clears it.
  unsigned* told = nullptr;
};

/// No deadline: the wait is the bare loop, the watch code is compiled away. Waits for ever if nobody posts.
struct NoWatch {
  struct Patience {};
  TESSERA_HOST_DEVICE constexpr Patience begin() const { return {}; }
  TESSERA_HOST_DEVICE constexpr bool go_on(Patience&, WaitPlace const&, unsigned, unsigned) const {
    return true;
  }
  static constexpr bool may_stop = false;
};

/// Nanoseconds of the GPU's global timer (device code only).
struct GlobalTimer {
  TESSERA_HOST_DEVICE static unsigned long long now() {
#if defined(__CUDA_ARCH__)
    unsigned long long nanoseconds;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    return nanoseconds;
#else
    return 0;
#endif
  }
};

/// A wait that is longer than `nanoseconds` writes the record (the first one only) and makes every waiter
/// that shares the record give up. `Clock::now()` is a static function that returns nanoseconds.
///
/// After a stall the semaphores and counters no longer agree: zero them before the next launch.
template <class Clock = GlobalTimer>
struct DeadlineWatch {
  StallRecord* record = nullptr;
  unsigned long long nanoseconds = 0;

  /// When the wait was first looked at, to 8 ns, and in the lowest bits the polls since the last look. One
  /// word, because a warp that loads has few registers to keep through a wait.
  struct Patience {
    unsigned long long since_and_polls = 0;
  };
  TESSERA_HOST_DEVICE constexpr Patience begin() const { return {}; }
  /// `place` is a WaitPlace, or becomes one where a report is written.
  template <class Place>
  TESSERA_HOST_DEVICE bool go_on(Patience& patience, Place const& place, unsigned seen,
                                 unsigned expected) const {
    constexpr unsigned long long k_polls = 7;
    // Looked at after every eighth poll, a few microseconds: a look is a load that each hop would wait for.
    if ((patience.since_and_polls & k_polls) != k_polls) {
      ++patience.since_and_polls;
      return true;
    }
    patience.since_and_polls &= ~k_polls;
    if (load_acquire<Scope::device>(&record->state) != 0) return false;
    unsigned long long const now = Clock::now();
    if (patience.since_and_polls == 0) patience.since_and_polls = now & ~k_polls;
    unsigned long long const waited = now - patience.since_and_polls;
    if (waited < nanoseconds) return true;
    if (claim(&record->state, 0, 1)) {
      WaitPlace const at = place;
      record->stage = at.stage;
      record->tile = at.tile;
      record->semaphore = at.semaphore;
      record->seen = seen;
      record->expected = expected;
      record->waited_ns = waited;
      store_release<Scope::system>(&record->state, 2);
      if (record->told != nullptr) store_release<Scope::system>(record->told, 1);
    }
    return false;
  }
  static constexpr bool may_stop = true;
};

/// Spins until the counter reaches `target`; false if the watch gave up. Called by one thread. The first
/// poll already is an acquire, and so is every other: what was written before the posts in the scope is
/// visible to the caller afterwards. Threads other than the caller need a barrier behind it, and reads by TMA
/// a fence_proxy_async() in the thread that issues them.
///
/// Hangs (or meets its deadline) if a post is missing: a producer block that never runs because waiting
/// blocks hold every SM, a block that leaves without post(), or memory that was zeroed in mid-launch.
template <Scope S, class Watch>
TESSERA_HOST_DEVICE inline bool wait_until(unsigned const* semaphore, unsigned target, Watch const& watch,
                                           WaitPlace const& place) {
  unsigned seen = load_acquire<S>(semaphore);
  if (reached(seen, target)) return true;
  auto patience = watch.begin();
  do {
    if (!watch.go_on(patience, place, seen, target)) return false;
    seen = load_acquire<S>(semaphore);
  } while (!reached(seen, target));
  return true;
}

}  // namespace tessera
