// SPDX-License-Identifier: Apache-2.0
// Shared memory of a block in a launch with roles: barriers, jobs, the places of both rings; and how threads
// of the block wait there. roles.cuh says who they are.
#pragma once

#include "../plan/role_rings.hpp"
#include "../sync/cluster.cuh"
#include "../sync/launch.cuh"
#include "../sync/shared_barrier.cuh"
#include "../sync/tensor_load.cuh"
#include "loop_worker.cuh"
#include "tile_function.cuh"

namespace tessera {

constexpr int k_role_jobs = 4;

/// One tile, as all roles of the block see it. A copy in shared memory of what says how to compute it.
struct RoleJob {
  LoopRecord record;
  unsigned long long arguments[k_role_argument_bytes / sizeof(unsigned long long)];
  long long iteration;  ///< of the launch
  long long period;
  int tile;    ///< linear
  int wanted;  ///< 0: of an iteration that was not asked for; -1: nothing is left to do
};

namespace detail {

constexpr int k_role_barrier_bytes = 1024;
constexpr int k_role_job_bytes = (static_cast<int>(sizeof(RoleJob)) + 15) / 16 * 16;
constexpr int k_role_fixed_bytes =
    (k_role_barrier_bytes + k_role_jobs * k_role_job_bytes + 1023) / 1024 * 1024;

}  // namespace detail

/// Dynamic shared memory of a launch with such rings.
TESSERA_HOST_DEVICE constexpr int shared_bytes_of(RoleRings const& r) {
  return detail::k_role_fixed_bytes + r.slots * r.slot_bytes + r.late_slots * r.late_slot_bytes +
         r.scratch_bytes + k_cluster_exchanges * r.exchange_bytes;
}

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

/// A slot to load into: where, and the barrier that counts what has landed.
struct RingSlot {
  unsigned address = 0;
  unsigned barrier = 0;
};

/// Shared memory of a block: barriers, jobs, the early ring, the late ring.
struct RoleMemory {
  unsigned base;  ///< 1024-byte aligned
  RoleRings const& rings;

  __device__ unsigned full(int slot) const { return base + 8 * slot; }
  __device__ unsigned empty(int slot) const { return base + 8 * (k_role_slots + slot); }
  __device__ unsigned late_full(int slot) const { return base + 8 * (2 * k_role_slots + slot); }
  __device__ unsigned late_empty(int slot) const {
    return base + 8 * (2 * k_role_slots + k_role_late_slots + slot);
  }
  __device__ unsigned job_full(int job) const { return base + first_job_barrier + 8 * job; }
  __device__ unsigned job_empty(int job) const { return base + first_job_barrier + 8 * (k_role_jobs + job); }
  /// A number: jobs whose slots the block has given back.
  __device__ unsigned jobs_read() const { return base + first_job_barrier + 8 * 2 * k_role_jobs; }
  /// Counts what other blocks of the cluster store in this one.
  __device__ unsigned exchanged(int i) const { return jobs_read() + 8 * (1 + i); }
  __device__ unsigned job(int i) const {
    return base + detail::k_role_barrier_bytes + i * detail::k_role_job_bytes;
  }
  __device__ unsigned slot(int i) const { return base + detail::k_role_fixed_bytes + i * rings.slot_bytes; }
  __device__ unsigned late_slot(int i) const { return slot(rings.slots) + i * rings.late_slot_bytes; }
  /// From `base` on.
  __device__ int scratch() const {
    return shared_bytes_of(rings) - k_cluster_exchanges * rings.exchange_bytes - rings.scratch_bytes;
  }
  /// Where the bytes come that exchanged(i) counts.
  __device__ unsigned exchange_room(int i) const {
    return base + shared_bytes_of(rings) - (k_cluster_exchanges - i) * rings.exchange_bytes;
  }

  static constexpr unsigned first_job_barrier = 8 * 2 * (k_role_slots + k_role_late_slots);
};
static_assert(k_role_ring_bytes == 227 * 1024 - detail::k_role_fixed_bytes,
              "the rest of an SM of sm_90 is for rings");
static_assert(RoleMemory::first_job_barrier + 8 * (2 * k_role_jobs + 1 + k_cluster_exchanges) <=
                  detail::k_role_barrier_bytes,
              "");

namespace detail {

/// Waits for what happens in the block; false after a stall. It is late only because a semaphore is, so it
/// lets the waits for semaphores meet their deadline first.
template <class Met, class Watch>
__device__ inline auto wait_in_block(Met const& met, Watch const& watch)
    -> decltype(static_cast<bool>(met())) {
  if (met()) return true;
  auto slower = watch;
  if constexpr (Watch::may_stop) slower.nanoseconds *= 4;
  auto patience = slower.begin();
  for (unsigned tries = 1; !met(); ++tries)
    if (tries % 16 == 0 &&
        !slower.go_on(patience, WaitPlace{0, static_cast<int>(blockIdx.x), k_no_semaphore}, 0, 0))
      return false;
  return true;
}
/// For a barrier in shared memory.
template <class Watch>
__device__ inline bool wait_in_block(unsigned barrier, unsigned parity, Watch const& watch) {
  return wait_in_block([&] { return barrier_try(barrier, parity); }, watch);
}

/// After a stall: loads that are on their way must land in shared memory that still is this block's.
__device__ inline void linger() {
  unsigned long long const since = GlobalTimer::now();
  while (GlobalTimer::now() - since < 20'000'000)
    ;
}

}  // namespace detail

/// The jobs of a block, one after the other, for one role.
template <class Watch>
class RoleJobs {
 public:
  __device__ RoleJobs(RoleMemory const& memory, RoleJob const* jobs, Watch const& watch)
      : memory_(memory), jobs_(jobs), watch_(watch) {}

  /// Comes back when the next job is there. False: a stall, in the calling thread: others may see the job.
  __device__ bool wait() const {
    return detail::wait_in_block(memory_.job_full(place_.index), place_.parity, watch_);
  }
  /// Is the job behind the next one there?
  __device__ bool following_is_there() const {
    auto place = place_;
    place.next(k_role_jobs);
    return barrier_test(memory_.job_full(place.index), place.parity);
  }
  /// nullptr: nothing is left. Behind a wait of every thread that calls.
  __device__ RoleJob const* get() const {
    auto const* const job = reinterpret_cast<RoleJob const*>(reinterpret_cast<char const*>(jobs_) +
                                                             place_.index * detail::k_role_job_bytes);
    return job->wanted < 0 ? nullptr : job;
  }
  /// One thread of each warp, when the warp has done with the job.
  __device__ void done() const { barrier_arrive(memory_.job_empty(place_.index)); }
  __device__ void next() { place_.next(k_role_jobs); }

 private:
  RoleMemory const& memory_;
  RoleJob const* jobs_;
  Watch const& watch_;
  RingPlace place_;
};

#endif

}  // namespace tessera
