// SPDX-License-Identifier: Apache-2.0
// The barrier of all blocks of a grid. Included by barrier.cuh, which says how to use it.
//
// A counter in several copies: every block adds to each copy, without waiting for an answer, and looks at one
// of them. So the polls of 132 blocks do not meet at one place of the L2, where they would hold up each other
// and the adds. The lower 31 bits of a counter are back at zero after each barrier, and the highest has
// changed: block 0 adds what is missing to 2^31.
#pragma once

#include "group.cuh"
#include "wait.cuh"

namespace tessera {

/// The words of a barrier, zeroed once before their first use. After a stall: zero them again.
struct BarrierWords {
  unsigned* words = nullptr;
  unsigned parties = 0;
};

/// Whose arrivals are counted: blocks, or clusters, whose blocks meet first (barrier.cluster).
enum class Party { block, cluster };

namespace detail {

constexpr unsigned k_flip = 0x80000000u;
/// From so many parties on, they add to several counters, and look at each.
TESSERA_HOST_DEVICE constexpr bool many(unsigned parties) { return parties > 396; }
TESSERA_HOST_DEVICE constexpr unsigned counters_of(unsigned parties) { return many(parties) ? 8 : 1; }
TESSERA_HOST_DEVICE constexpr unsigned copies_of(unsigned parties) { return many(parties) ? 8 : 2; }
/// In words, 4 KB and 128 bytes: counters and copies are served by several slices of the L2. (On an H200, 4
/// KB further is the other half of it.) Counters of one copy 128 bytes apart took 30 % more at 1056 blocks.
constexpr unsigned k_apart = 1056;
/// Nobody looks earlier after his arrival: a poll that comes too soon costs a round trip, and is in the way
/// of others' arrivals. No barrier of a grid was seen to take less.
constexpr long long k_first_poll_cycles = 300;

struct Clock {
  TESSERA_HOST_DEVICE static long long now() {
#if defined(__CUDA_ARCH__)
    return clock64();
#else
    return 0;
#endif
  }
};

TESSERA_HOST_DEVICE inline void store_relaxed(unsigned* address, unsigned value) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.relaxed.gpu.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
#else
  __atomic_store_n(address, value, __ATOMIC_RELAXED);
#endif
}

/// All threads of all blocks of the cluster, release and acquire at the cluster's scope. Blocks that have
/// left are not waited for. No deadline.
template <Party P>
TESSERA_HOST_DEVICE inline void party_barrier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if constexpr (P == Party::cluster) {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    return;
  }
#endif
  group_barrier<Group::block>();
}

/// Whether this block speaks for its party.
template <Party P>
TESSERA_HOST_DEVICE inline bool speaks() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if constexpr (P == Party::cluster) {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank == 0;
  }
#endif
  return true;
}

}  // namespace detail

/// Memory of a GridBarrier, in words, to be zeroed once.
constexpr unsigned grid_barrier_words(unsigned parties) {
  return detail::counters_of(parties) * detail::copies_of(parties) * detail::k_apart + parties;
}

/// Barrier of a grid's blocks: `GridBarrier<> barrier({words, number of blocks}, number of this block)`.
/// Every call is made by all threads of every block; device scope. All launches that share the memory have
/// the same number of blocks.
///
/// With Party::cluster (sm_90, a launch with clusters) the parties are clusters: their number, and that of
/// this block's cluster. A missing cluster meets the deadline; a block that is missing in a cluster does not.
template <class Watch = NoWatch, Party P = Party::block>
class GridBarrier {
 public:
  /// Looks at the counter once (a fifth of a microsecond).
  TESSERA_HOST_DEVICE GridBarrier(BarrierWords memory, unsigned party, Watch watch = {})
      : memory_(memory),
        party_(party),
        watch_(watch),
        counters_(detail::counters_of(memory.parties)),
        copies_(detail::copies_of(memory.parties)),
        own_(memory.words + party % counters_ * detail::k_apart),
        polled_(memory.words + party / counters_ % copies_ * counters_ * detail::k_apart),
        // The first party of a counter makes the sum 2^31.
        amount_(party < counters_ ? detail::k_flip - (parties_of(party) - 1) : 1u),
        // Its own counter cannot change sides before it has arrived.
        phase_(load_acquire<Scope::device>(own_) & detail::k_flip) {
    // Nobody may arrive before every thread of the party has looked.
    detail::party_barrier<P>();
    if constexpr (Watch::may_stop)
      if (is_leader<Group::block>() && detail::speaks<P>()) detail::store_relaxed(name(party_), phase_);
  }

  /// What this block's threads wrote before is visible, afterwards, to those who wait. Once before each wait.
  TESSERA_HOST_DEVICE void arrive() {
    phase_ ^= detail::k_flip;
    detail::party_barrier<P>();
    if (detail::speaks<P>()) {
      Share const share = share_of<Group::block>();
      for (auto copy = static_cast<unsigned>(share.first); copy < copies_;
           copy += static_cast<unsigned>(share.step))
        add_release<Scope::device>(own_ + copy * counters_ * detail::k_apart, amount_);
      if constexpr (Watch::may_stop)
        if (is_leader<Group::block>()) detail::store_relaxed(name(party_), phase_);
    }
    arrived_ = detail::Clock::now();
  }

  /// Waits until all have arrived. False, for all threads, if the watch gave up: its record then names this
  /// party as the tile, and as the semaphore one that has not arrived (-1: none was found), with the number
  /// of parties seen and expected at its counter.
  TESSERA_HOST_DEVICE bool wait() const {
    Share const share = share_of<Group::block>();
    bool ok = true;
    for (auto counter = static_cast<unsigned>(share.first); counter < counters_ && ok;
         counter += static_cast<unsigned>(share.step))
      ok = wait_for(counter);
    return together<Group::block, Watch>(ok);
  }

  TESSERA_HOST_DEVICE bool sync() {
    arrive();
    return wait();
  }

 private:
  /// Where a party says that it has arrived, for reports only.
  TESSERA_HOST_DEVICE unsigned* name(unsigned party) const {
    return memory_.words + counters_ * copies_ * detail::k_apart + party;
  }
  TESSERA_HOST_DEVICE unsigned parties_of(unsigned counter) const {
    return (memory_.parties + counters_ - 1 - counter) / counters_;
  }

  TESSERA_HOST_DEVICE bool wait_for(unsigned counter) const {
    unsigned const* const from = polled_ + counter * detail::k_apart;
#if defined(__CUDA_ARCH__)
    while (detail::Clock::now() - arrived_ < detail::k_first_poll_cycles) {
    }
#endif
    unsigned seen = load_acquire<Scope::device>(from);
    if (((seen ^ phase_) & detail::k_flip) == 0) return true;
    auto patience = watch_.begin();
    WaitPlace place{0, static_cast<long long>(party_), -1};
    unsigned const expected = parties_of(counter);
    unsigned polls = 0;
    do {
      unsigned arrived = 0;
      if constexpr (Watch::may_stop) {
        unsigned const sum = seen & ~detail::k_flip;
        arrived = sum < detail::k_flip / 2 ? sum : sum + expected - detail::k_flip;
        // Ever more rarely: it takes as long as a hundred polls.
        ++polls;
        if (polls >= 512 && (polls & (polls - 1)) == 0) place.semaphore = missing(counter);
      }
      if (!watch_.go_on(patience, place, arrived, expected)) return false;
      seen = load_acquire<Scope::device>(from);
    } while (((seen ^ phase_) & detail::k_flip) != 0);
    return true;
  }

  TESSERA_HOST_DEVICE long long missing(unsigned counter) const {
    for (unsigned party = counter; party < memory_.parties; party += counters_)
      if (load_acquire<Scope::device>(name(party)) != phase_) return party;
    return -1;
  }

  BarrierWords memory_;
  unsigned party_;
  Watch watch_;
  unsigned counters_;
  unsigned copies_;
  unsigned* own_;           ///< its counter's first copy
  unsigned const* polled_;  ///< first counter of the copy that it looks at
  unsigned amount_;         ///< what it adds
  unsigned phase_;
  long long arrived_ = 0;
};

}  // namespace tessera
