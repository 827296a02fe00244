// SPDX-License-Identifier: Apache-2.0
// What all warps of a block share: where things are in shared memory, rings, and waits that end when any
// block of the launch has met its deadline.
#pragma once

#include <tessera/sync/wait.cuh>

#include "hopper.cuh"
#include "parameters.hpp"

namespace tessera::skinny_sm90 {

/// The block's place in the work, and its shared memory: barriers, then the ring of weights, then the ring of
/// activations, then, where two blocks split the depth for up to 64 tokens, room for partial sums. A matrix
/// instruction reads 64 rows where a slot may have fewer, so the last slot's reads run on into the
/// activations; those rows of the result are never used.
struct Block {
  unsigned base;  ///< 1024-byte aligned
  int rank;       ///< in the cluster

  __device__ Block(void* shared, int split)
      : base(shared_address(shared)), rank(static_cast<int>(blockIdx.x) % split) {}
  __device__ unsigned full(int slot) const { return base + 8 * slot; }
  __device__ unsigned empty(int slot) const { return base + 8 * (most_slots + slot); }
  __device__ unsigned activations_full(int stage) const { return base + 8 * (2 * most_slots + stage); }
  __device__ unsigned activations_empty(int stage) const {
    return base + 8 * (2 * most_slots + most_activation_stages + stage);
  }
  __device__ unsigned partials_full() const { return base + first_pair_barrier; }
  __device__ unsigned partials_open() const { return base + first_pair_barrier + 8; }
  __device__ unsigned stored() const { return base + first_pair_barrier + 16; }
  __device__ unsigned partials_read() const { return base + first_pair_barrier + 24; }
  __device__ unsigned slot(Parameters const& p, int i) const {
    return base + barrier_bytes + i * p.slot_bytes;
  }
  __device__ unsigned activations(Parameters const& p, int stage) const {
    return slot(p, p.slots) + stage * p.activation_bytes;
  }
  __device__ unsigned partials(Parameters const& p) const { return activations(p, p.activation_stages); }
  __device__ Range unit(Cut const& cut, int wave, int tile) const {
    return cut.unit(wave, static_cast<int>(gridDim.x) / cut.split, static_cast<int>(blockIdx.x) / cut.split,
                    tile);
  }
  /// The first k-block of this block's part of the depth.
  __device__ int first_depth_block(Cut const& cut) const {
    return cut.split > 1 ? rank * cut.part_blocks : 0;
  }

  static constexpr unsigned first_pair_barrier = 8 * 2 * (most_slots + most_activation_stages);
};
static_assert(Block::first_pair_barrier + 32 <= barrier_bytes, "barriers overlap slots");

/// Ends the calling thread, late: loads that are on their way must land in shared memory that still is there,
/// and blocks of a cluster, which notice a stall within a millisecond of each other, may be reaching into it.
__device__ inline void leave_after_stall() {
  unsigned long long const since = GlobalTimer::now();
  while (GlobalTimer::now() - since < 20'000'000)
    ;
  asm volatile("exit;");
  __builtin_unreachable();
}

/// Waits for a barrier in shared memory; false after a stall. Such a wait is late only because a semaphore
/// is, so it lets the waits for semaphores meet their deadline first.
template <bool Cluster = false>
__device__ inline bool wait_until_stall(unsigned barrier, unsigned parity, Parameters const& p) {
  auto met = [&] { return Cluster ? barrier_try_cluster(barrier, parity) : barrier_try(barrier, parity); };
  if (met()) return true;
  DeadlineWatch<> const watch{p.watch.record, 4 * p.watch.nanoseconds};
  auto patience = watch.begin();
  for (unsigned tries = 1; !met(); ++tries)
    if (tries % 16 == 0 &&
        !watch.go_on(patience, WaitPlace{p.stage, static_cast<int>(blockIdx.x), no_semaphore}, 0, 0))
      return false;
  return true;
}

/// The same, but does not come back after a stall.
template <bool Cluster = false>
__device__ inline void wait_barrier(unsigned barrier, unsigned parity, Parameters const& p) {
  if (!wait_until_stall<Cluster>(barrier, parity, p)) leave_after_stall();
}

}  // namespace tessera::skinny_sm90
