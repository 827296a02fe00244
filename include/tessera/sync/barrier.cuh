// SPDX-License-Identifier: Apache-2.0
// Barriers among the blocks of one grid, and among neighbours, with deadlines if wanted. Not part of
// tessera/sync.cuh: include it where it is used.
//
// Each block has one word, its epoch: how often it has arrived. To arrive is one release store of the next
// epoch; to wait is to see that the others' words have come that far. A grid barrier waits for all words, a
// neighbour barrier for a few. Words only ever grow (and wrap at 2^32), so nothing is reset between barriers
// or launches, and a block that is one barrier ahead disturbs nobody.
//
//     __global__ void steps(unsigned* words, ...) {
//       tessera::GridBarrier<> barrier({words, gridDim.x}, blockIdx.x);
//       for (...) { work(); barrier.sync(); }                  // whole
//       for (...) { edge(); barrier.arrive(); interior(); barrier.wait(); }   // split
//     }
//
// All blocks must be resident together: launch at most occupancy times SMs of them, best by
// cudaLaunchCooperativeKernel, which refuses more. Without that a grid barrier hangs, or meets its deadline.
#pragma once

#include "group.cuh"
#include "wait.cuh"

namespace tessera {

/// The words of a barrier, one for each arriving party, zeroed once before their first use. After a stall:
/// zero them again.
struct BarrierWords {
  unsigned* words = nullptr;
  unsigned parties = 0;
};

/// Waits until the words of `count` parties, those that `party_of(0 ... count - 1)` names, have reached
/// `epoch`. The group's threads share the words. False, for every thread, if the watch gave up.
template <Scope S, Group G, class Watch, class PartyOf>
TESSERA_HOST_DEVICE inline bool wait_for_epochs(unsigned const* words, unsigned count, PartyOf party_of,
                                                unsigned epoch, unsigned party, Watch const& watch) {
  Share const share = share_of<G>();
  bool ok = true;
  for (unsigned i = static_cast<unsigned>(share.first); i < count && ok;
       i += static_cast<unsigned>(share.step)) {
    unsigned const other = party_of(i);
    ok = wait_until<S>(words + other, epoch, watch,
                       WaitPlace{0, static_cast<long long>(party), static_cast<long long>(other)});
  }
  return together<G, Watch>(ok);
}

struct EveryParty {
  TESSERA_HOST_DEVICE unsigned operator()(unsigned i) const { return i; }
};

/// Barrier of parties that each have a word. Every call is made by the whole group G of the party (default:
/// all threads of the block).
template <class Watch = NoWatch, Scope S = Scope::device, Group G = Group::block>
class EpochBarrier {
 public:
  /// Reads the party's own word (a fifth of a microsecond, once): every party has arrived equally often in
  /// the launches before.
  TESSERA_HOST_DEVICE EpochBarrier(BarrierWords memory, unsigned party, Watch watch = {})
      : memory_(memory), party_(party), watch_(watch), epoch_(load_acquire<S>(memory.words + party)) {
    // Nobody may arrive before every thread of the party has read.
    group_barrier<G>();
  }

  /// What this party's threads wrote before is visible, afterwards, to those who wait.
  TESSERA_HOST_DEVICE void arrive() {
    ++epoch_;
    group_barrier<G>();
    if (is_leader<G>()) store_release<S>(memory_.words + party_, epoch_);
  }

  /// Waits until all parties have arrived as often as this one. False if the watch gave up.
  TESSERA_HOST_DEVICE bool wait() const { return wait_for(memory_.parties, EveryParty{}); }

  /// Waits for `count` parties only, those that `party_of(0 ... count - 1)` names: neighbours. A neighbour
  /// that waits for this party as well runs at most one step ahead of it; so data that neighbours read needs
  /// two buffers, by turns.
  template <class PartyOf>
  TESSERA_HOST_DEVICE bool wait_for(unsigned count, PartyOf party_of) const {
    return wait_for_epochs<S, G>(memory_.words, count, party_of, epoch_, party_, watch_);
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

/// Barrier of a grid's blocks: `GridBarrier<> barrier({words, number of blocks}, number of this block)`.
template <class Watch = NoWatch>
using GridBarrier = EpochBarrier<Watch>;

}  // namespace tessera
