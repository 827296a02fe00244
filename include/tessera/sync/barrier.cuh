// SPDX-License-Identifier: Apache-2.0
// Barriers among the blocks of one grid, and among neighbours, with deadlines if wanted. Not part of
// tessera/sync.cuh: include it where it is used.
//
//     __global__ void steps(unsigned* words, ...) {         // grid_barrier_words(gridDim.x), zeroed once
//       tessera::GridBarrier<> barrier({words, gridDim.x}, blockIdx.x);
//       for (...) { work(); barrier.sync(); }                               // whole
//       for (...) { edge(); barrier.arrive(); interior(); barrier.wait(); } // split
//     }
//
// All blocks must be resident together: launch at most occupancy times SMs of them, best by
// cudaLaunchCooperativeKernel, which refuses more. Without that a barrier hangs, or meets its deadline.
//
// Arriving is a release and waiting an acquire at device scope (EpochBarrier: of any scope): what any thread
// of a party wrote before it arrived is visible to every thread that has waited for it. Nothing is reset
// between barriers or launches.
#pragma once

#include "grid_barrier.cuh"
#include "group.cuh"
#include "wait.cuh"

namespace tessera {

/// Waits until the words of `count` parties, those that `party_of(0 ... count - 1)` names, have reached
/// `epoch`. The words are `apart` from each other. The group's threads share them. False, for every thread,
/// if the watch gave up.
template <Scope S, Group G, class Watch, class PartyOf>
TESSERA_HOST_DEVICE inline bool wait_for_epochs(unsigned const* words, unsigned count, PartyOf party_of,
                                                unsigned epoch, unsigned party, Watch const& watch,
                                                unsigned apart = 1) {
  Share const share = share_of<G>();
  bool ok = true;
  for (unsigned i = static_cast<unsigned>(share.first); i < count && ok;
       i += static_cast<unsigned>(share.step)) {
    unsigned const other = party_of(i);
    ok = wait_until<S>(words + other * apart, epoch, watch,
                       WaitPlace{0, static_cast<long long>(party), static_cast<long long>(other)});
  }
  return together<G, Watch>(ok);
}

struct EveryParty {
  TESSERA_HOST_DEVICE unsigned operator()(unsigned i) const { return i; }
};

/// A word of an EpochBarrier has 32 bytes for itself: in a line that others write to, each poll of it crosses
/// the chip again (docs/design/notes-barriers.md).
constexpr unsigned k_epoch_apart = 8;
constexpr unsigned epoch_barrier_words(unsigned parties) { return parties * k_epoch_apart; }

/// Barrier of parties that each have a word, their epoch: how often they have arrived. To arrive is one
/// release store of the next epoch; to wait is to see that others' words have come as far. Epochs wrap at
/// 2^32, and a party that is one barrier ahead disturbs nobody. For neighbours, and for few parties; for all
/// blocks of a grid GridBarrier is faster.
///
/// Memory: epoch_barrier_words(parties), zeroed once; after a stall: again. Every call is made by the whole
/// group G of the party (default: all threads of the block).
template <class Watch = NoWatch, Scope S = Scope::device, Group G = Group::block>
class EpochBarrier {
 public:
  /// Reads the party's own word (a fifth of a microsecond, once): every party has arrived equally often in
  /// the launches before.
  TESSERA_HOST_DEVICE EpochBarrier(BarrierWords memory, unsigned party, Watch watch = {})
      : memory_(memory),
        party_(party),
        watch_(watch),
        epoch_(load_acquire<S>(memory.words + party * k_epoch_apart)) {
    // Nobody may arrive before every thread of the party has read.
    group_barrier<G>();
  }

  /// What this party's threads wrote before is visible, afterwards, to those who wait.
  TESSERA_HOST_DEVICE void arrive() {
    ++epoch_;
    group_barrier<G>();
    if (is_leader<G>()) store_release<S>(memory_.words + party_ * k_epoch_apart, epoch_);
  }

  /// Waits until all parties have arrived as often as this one. False if the watch gave up; its record then
  /// names this party as the tile and the missing one as the semaphore.
  TESSERA_HOST_DEVICE bool wait() const { return wait_for(memory_.parties, EveryParty{}); }

  /// Waits for `count` parties only, those that `party_of(0 ... count - 1)` names: neighbours. A neighbour
  /// that waits for this party as well runs at most one step ahead of it; so data that neighbours read needs
  /// two buffers, by turns.
  template <class PartyOf>
  TESSERA_HOST_DEVICE bool wait_for(unsigned count, PartyOf party_of) const {
    return wait_for_epochs<S, G>(memory_.words, count, party_of, epoch_, party_, watch_, k_epoch_apart);
  }

  TESSERA_HOST_DEVICE bool sync() {
    arrive();
    return wait();
  }

  /// How often this party has arrived since its word was zeroed.
  TESSERA_HOST_DEVICE unsigned epoch() const { return epoch_; }

 private:
  BarrierWords memory_;
  unsigned party_;
  Watch watch_;
  unsigned epoch_;
};

}  // namespace tessera
