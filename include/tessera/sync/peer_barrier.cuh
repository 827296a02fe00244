// SPDX-License-Identifier: Apache-2.0
// Barriers among several GPUs of one host that reach each other's memory, with deadlines if wanted. They
// stand where multi-grid groups stood before CUDA 13. Not part of tessera/sync.cuh: include it where it is
// used.
//
// Each party has a word, its epoch, in the memory of every GPU. To arrive is to store the next epoch over the
// links; to wait is to look at one's own GPU's words: nobody polls across a link, and nothing is ever reset.
//
//     __global__ void steps(tessera::PeerWords words, unsigned gpu, ...) {      // one launch on each GPU
//       tessera::PeerBarrier<> barrier(words, gpu, gpu * gridDim.x + blockIdx.x);
//       for (...) { write_into_the_peers(); barrier.sync(); }
//     }
//
// All blocks of a GPU must be resident together (cudaLaunchCooperativeKernel refuses more), and all GPUs'
// kernels must run: load them first, and launch on all GPUs before any call of the host that blocks. Nothing
// guards that across GPUs: without it a barrier hangs, or meets its deadline.
#pragma once

#include "barrier.cuh"

namespace tessera {

/// An array of words on each GPU, which every GPU can store to: cudaMalloc and cudaDeviceEnablePeerAccess.
/// Zeroed once before their first use; after a stall: zeroed again.
struct PeerWords {
  static constexpr unsigned most_gpus = 16;
  unsigned* at[most_gpus] = {};  ///< one word for each party
  unsigned gpus = 0;
  unsigned parties = 0;  ///< on all GPUs together
};

/// Barrier of parties on several GPUs; one hop over the link. Every call is made by the whole group G of the
/// party (default: all threads of the block). A party is a block, or the one block of a GPU that speaks for
/// it.
template <class Watch = NoWatch, Group G = Group::block>
class PeerBarrier {
 public:
  /// Reads the party's own word: every party has arrived equally often in the launches before.
  TESSERA_HOST_DEVICE PeerBarrier(PeerWords const& memory, unsigned gpu, unsigned party, Watch watch = {})
      : memory_(memory),
        gpu_(gpu),
        party_(party),
        watch_(watch),
        epoch_(load_acquire<Scope::device>(memory.at[gpu] + party)) {
    // Nobody may arrive before every thread of the party has read.
    group_barrier<G>();
  }

  /// What this party's threads wrote before, in any GPU's memory, is visible afterwards to those who wait.
  TESSERA_HOST_DEVICE void arrive() {
    ++epoch_;
    group_barrier<G>();
    tell(memory_, party_, epoch_);
  }

  /// Waits until all parties have arrived as often as this one. False, for all threads, if the watch gave up.
  TESSERA_HOST_DEVICE bool wait() const {
    return wait_for_epochs<Scope::system, G>(memory_.at[gpu_], memory_.parties, EveryParty{}, epoch_, party_,
                                             watch_);
  }

  TESSERA_HOST_DEVICE bool sync() {
    arrive();
    return wait();
  }

  /// How often this party has arrived since its words were zeroed.
  TESSERA_HOST_DEVICE unsigned epoch() const { return epoch_; }

  /// Stores the epoch in every GPU's word of the party. The threads of the group share the GPUs.
  TESSERA_HOST_DEVICE static void tell(PeerWords const& memory, unsigned party, unsigned epoch) {
    Share const share = share_of<G>();
    for (unsigned i = static_cast<unsigned>(share.first); i < memory.gpus;
         i += static_cast<unsigned>(share.step))
      store_release<Scope::system>(memory.at[i] + party, epoch);
  }

 private:
  PeerWords const& memory_;
  unsigned gpu_;
  unsigned party_;
  Watch watch_;
  unsigned epoch_;
};

namespace detail {

/// Adds one and returns the value before; acquire and release, device scope.
TESSERA_HOST_DEVICE inline unsigned count_arrival(unsigned* counter) {
#if defined(__CUDA_ARCH__)
  unsigned before;
  asm volatile("atom.acq_rel.gpu.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
#else
  return __atomic_fetch_add(counter, 1u, __ATOMIC_ACQ_REL);
#endif
}

/// The first lane's value, for the whole warp, which knows afterwards what the first lane knew.
TESSERA_HOST_DEVICE inline unsigned from_first_lane(unsigned value) {
#if defined(__CUDA_ARCH__)
  value = __shfl_sync(0xffffffffu, value, 0);
  __syncwarp();
#endif
  return value;
}

}  // namespace detail

/// Barrier of whole grids, a party a GPU: blocks count themselves on their own GPU, the last one tells all
/// GPUs, and every block looks at its GPU's copies of that. Faster than a party a block where there are many:
/// one store crosses the link for each pair of GPUs. Blocks of at least 32 threads.
template <class Watch = NoWatch>
class PeerGridBarrier {
 public:
  /// `memory`: a party for each GPU; `blocks`: one word on this GPU, zeroed once, and the number of its
  /// blocks.
  TESSERA_HOST_DEVICE PeerGridBarrier(PeerWords const& memory, BarrierWords blocks, unsigned gpu,
                                      Watch watch = {})
      : memory_(memory),
        blocks_(blocks),
        gpu_(gpu),
        watch_(watch),
        // This GPU's own word cannot go on before this block has arrived.
        epoch_(load_acquire<Scope::device>(memory.at[gpu] + gpu)) {
    group_barrier<Group::block>();
  }

  /// What this block's threads wrote before, in any GPU's memory, is visible afterwards to those who wait.
  TESSERA_HOST_DEVICE void arrive() {
    ++epoch_;
    group_barrier<Group::block>();
    int const thread = share_of<Group::block>().first;
    if (thread >= 32) return;
    unsigned before = 0;
    if (thread == 0) before = detail::count_arrival(blocks_.words);
    before = detail::from_first_lane(before);
    // Both sides wrap together.
    if (before + 1 == epoch_ * blocks_.parties) PeerBarrier<Watch, Group::warp>::tell(memory_, gpu_, epoch_);
  }

  /// Waits until all blocks of all GPUs have arrived. False, for all threads, if the watch gave up: its
  /// record then names a GPU that has not come as the semaphore, this one if it is one of its own blocks that
  /// has not.
  TESSERA_HOST_DEVICE bool wait() const {
    return wait_for_epochs<Scope::system, Group::block>(memory_.at[gpu_], memory_.gpus, EveryParty{}, epoch_,
                                                        gpu_, watch_);
  }

  TESSERA_HOST_DEVICE bool sync() {
    arrive();
    return wait();
  }

 private:
  PeerWords const& memory_;
  BarrierWords blocks_;
  unsigned gpu_;
  Watch watch_;
  unsigned epoch_;
};

}  // namespace tessera
