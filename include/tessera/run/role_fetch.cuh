// SPDX-License-Identifier: Apache-2.0
// The warp of a launch with roles (role_kernel.cuh) that fetches jobs: it finds out which tile the block
// computes next, and copies to shared memory what says how.
#pragma once

#include "../sync/dealt_tiles.cuh"
#include "roles.cuh"

namespace tessera {

/// What the launch says of a stage of the period. In device memory.
struct RoleStage {
  void const* arguments = nullptr;
  int argument_bytes = 0;  ///< a multiple of 8
  int iteration = 0;       ///< in the period
};

/// Blocks are workers: as many as LoopTickets says.
struct RoleLaunch {
  LoopRecord const* records = nullptr;
  RoleStage const* stages = nullptr;
  DealtLists lists;
};

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

namespace detail {

__device__ inline void copy_async(unsigned to, void const* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory");
}
__device__ inline void arrive_when_copied(unsigned barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}
/// Arrivals at RoleMemory::job_full(): a copy's of each lane, and lane 0's own.
constexpr int k_job_arrivals = 33;

/// Tickets that blocks have drawn in this launch, where they share a list. Launches with roles have no wait
/// kernels.
__device__ inline unsigned long long* drawn_tickets(ChainMemory const& chain) {
  return counter(chain, 0, Counter::wait_kernels);
}

/// Fetches the block's jobs, as far ahead as there is room for them. All lanes of one warp. Nothing of it
/// waits for memory that a job's other warps wait for: what was copied arrives by itself, and which tile is
/// next is found out behind the copy of the one before.
template <class Watch>
__device__ void fetch_jobs(RoleMemory const& memory, RoleJob* jobs, RoleLaunch const& launch,
                           LoopTickets const& tickets, ChainMemory const& chain, Watch const& watch) {
  int const lane = static_cast<int>(threadIdx.x % 32);
  bool const draws = launch.lists.shared;
  // On its way together with the first tile, which mostly is of this stage.
  RoleStage of = launch.stages[0];
  int known = 0;
  DealtWalk walk(launch.lists, static_cast<int>(blockIdx.x), tickets.periods());
  DealtTile dealt;
  long long period = 0;
  // Of a shared list each block has its own first ticket, and draws those behind them.
  bool left = !walk.find(draws ? blockIdx.x : 0, dealt, period);
  RingPlace place;
  for (long long next = 1;; ++next) {
    if (!__all_sync(~0u, wait_in_block(memory.job_empty(place.index), place.parity ^ 1, watch))) return;
    auto* const job =
        reinterpret_cast<RoleJob*>(reinterpret_cast<char*>(jobs) + place.index * k_role_job_bytes);
    unsigned const to = memory.job(place.index);
    if (!left) {
      if (dealt.stage != known) of = launch.stages[known = dealt.stage];
      auto const* const record = reinterpret_cast<char const*>(launch.records + dealt.stage);
      for (int at = 8 * lane; at < static_cast<int>(sizeof(LoopRecord)); at += 8 * 32)
        copy_async(to + at, record + at);
      for (int at = 8 * lane; at < of.argument_bytes; at += 8 * 32)
        copy_async(to + static_cast<unsigned>(offsetof(RoleJob, arguments)) + at,
                   static_cast<char const*>(of.arguments) + at);
      if (lane == 0) {
        long long const iteration = period * tickets.period + of.iteration;
        job->iteration = iteration;
        job->period = period;
        job->tile = dealt.tile;
        job->wanted = iteration < tickets.iterations ? 1 : 0;
      }
    } else if (lane == 0) {
      job->wanted = -1;
    }
    arrive_when_copied(memory.job_full(place.index));
    if (lane == 0) barrier_arrive(memory.job_full(place.index));
    if (left) return;
    place.next(k_role_jobs);
    if (draws) {
      if (next == 1) pdl_wait();  // the launch before draws from the same counter
      unsigned long long drawn = 0;
      if (lane == 0) drawn = draw_ticket(drawn_tickets(chain));
      drawn = __shfl_sync(~0u, drawn, 0);
      left = !walk.find(tickets.workers + static_cast<long long>(drawn), dealt, period);
    } else {
      left = !walk.find(next, dealt, period);
    }
  }
}

}  // namespace detail

#endif

}  // namespace tessera
