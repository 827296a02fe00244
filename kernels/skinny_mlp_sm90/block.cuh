// SPDX-License-Identifier: Apache-2.0
// What all warps of a block share: where things are in shared memory, rings, and waits that end when any
// block of the launch has met its deadline.
#pragma once

#include <tessera/sync/wait.cuh>

#include "hopper.cuh"
#include "parameters.hpp"

namespace tessera::skinny_sm90 {

/// A position in a ring of barriers. The parity is the one that a reader waits for.
struct Position {
  int index = 0;
  unsigned parity = 0;
  __device__ void next(int size) {
    if (++index == size) {
      index = 0;
      parity ^= 1;
    }
  }
};

/// The block's place in the work, and its shared memory: barriers, then the ring of weights, then the ring of
/// activations. A matrix instruction reads 64 rows where a slot may have fewer, so the last slot's reads run
/// on into the activations; those rows of the result are never used.
struct Block {
  unsigned base;  ///< 1024-byte aligned
  int cluster;
  int rank;  ///< in the cluster
  int ranks;

  __device__ Block(void* shared, int ranks_) : ranks(ranks_) {
    base = (shared_address(shared) + 1023) & ~1023u;
    cluster = static_cast<int>(blockIdx.x) / ranks;
    rank = static_cast<int>(blockIdx.x) % ranks;
  }
  __device__ unsigned full(int slot) const { return base + 8 * slot; }
  __device__ unsigned empty(int slot) const { return base + 8 * (most_slots + slot); }
  __device__ unsigned activations_full(int stage) const { return base + 8 * (2 * most_slots + stage); }
  __device__ unsigned activations_empty(int stage) const {
    return base + 8 * (2 * most_slots + most_activation_stages + stage);
  }
  /// All warps of the cluster have done their multiplications: partial sums may overwrite the rings.
  __device__ unsigned exchange_open() const {
    return base + 8 * (2 * most_slots + 2 * most_activation_stages);
  }
  __device__ unsigned partials_full() const { return exchange_open() + 8; }
  /// This block's warps have read the partial sums.
  __device__ unsigned exchange_over() const { return exchange_open() + 16; }

  __device__ unsigned slot(Parameters const& p, int index) const {
    return base + barrier_bytes + index * p.slot_bytes;
  }
  __device__ unsigned activations(Parameters const& p, int stage) const {
    return slot(p, p.slots) + stage * p.activation_bytes;
  }

  /// The stages of k that this block multiplies.
  __device__ Range stages(Cut const& cut) const { return part(cut.stages, ranks, rank); }
  /// The i-th of them. Clusters that start at different places spread their loads, and a late producer holds
  /// up few of them at once.
  __device__ int stage(Parameters const& p, Range range, int i) const {
    if (!p.rotate) return range.begin + i;
    int const turned = i + part(range.size(), p.clusters, cluster).begin;
    return range.begin + (turned < range.size() ? turned : turned - range.size());
  }
};
static_assert(8 * (2 * most_slots + 2 * most_activation_stages + 3) <= barrier_bytes,
              "barriers overlap slots");

/// Ends the calling thread, late: loads that are on their way must land in shared memory that still is there,
/// and blocks of a cluster, which notice a stall within a millisecond of each other, may be reaching into it.
__device__ inline void leave_after_stall() {
  unsigned long long const since = GlobalTimer::now();
  while (GlobalTimer::now() - since < 20'000'000)
    ;
  asm volatile("exit;");
  __builtin_unreachable();
}

/// Waits for a barrier in shared memory. Does not come back if some block of the launch has met its deadline,
/// which is kept where semaphores are polled: whatever else is late is late because of them.
template <bool Cluster = false>
__device__ inline void wait_barrier(unsigned barrier, unsigned parity, StallRecord const* record) {
  for (unsigned tries = 1; !barrier_try<Cluster>(barrier, parity); ++tries)
    if (tries % 16 == 0 && load_acquire<Scope::device>(&record->state) != 0) leave_after_stall();
}

}  // namespace tessera::skinny_sm90
