// SPDX-License-Identifier: Apache-2.0
// The kernel: a block computes one tile. One warp loads, one to three warpgroups compute.
#pragma once

#include <tessera/run/role_registers.cuh>

#include "compute.cuh"
#include "load.cuh"

namespace tessera::attention_sm90 {

template <class S>
__global__ void __launch_bounds__(S::threads, 1) attention_kernel(__grid_constant__ Parameters const p) {
  extern __shared__ unsigned char memory[];
  Room<S> const room(memory);
  if (threadIdx.x == 0) {
    constexpr unsigned readers = S::computers / 32;
    barrier_init(room.queries_full(), 1);
    for (int i = 0; i < S::stages; ++i) {
      barrier_init(room.keys_full(i), 1);
      barrier_init(room.values_full(i), 1);
      barrier_init(room.keys_empty(i), readers);
      barrier_init(room.values_empty(i), readers);
    }
    asm volatile("st.shared.u32 [%0], 0;" ::"r"(room.gave_up()) : "memory");
    fence_barrier_init();
  }
  using View = RuntimeStageView<DeadlineWatch<>>;
  View view(p.stage, p.memory, p.watch);
  TilePlace place;
  if (p.planned) {
    Tile const tile = view.start();
    place = p.packed ? packed_place<S>(p, tile.at[0], tile.at[1]) : p.tiles.at(tile.at[0], tile.at[1]);
  } else {
    place = p.tiles.at_position(static_cast<int>(blockIdx.x), p.last_first);
  }
  if (p.waits_at_start) pdl_wait();
  Job const job = job_of<S>(p, place);
  // Barriers are ready, and all threads have started.
  __syncthreads();
  int const group = same(static_cast<int>(threadIdx.x) / k_warpgroup);
  if (group == 0) {
    if constexpr (S::groups > 1) detail::give_registers<S::loader_registers>();
    if (threadIdx.x < 32) wait_and_load<S>(p, room, job, view);
    return;
  }
  if constexpr (S::groups > 1) detail::take_registers<S::computer_registers>();
  if (!job.empty()) {
    Computer<S> computer(p, room, job, group - 1);
    computer.run();
    unsigned gave_up;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(gave_up) : "r"(room.gave_up()) : "memory");
    if (gave_up != 0) return;
    if (p.planned && !view.template wait_before_store<Group::thread>()) return;
    computer.store();
  }
  if (!p.planned) return;
  // Who reads the tile through TMA finds it there.
  fence_proxy_async();
  named_sync(k_all_barrier, S::computers);
  if (threadIdx.x == k_warpgroup) view.template post<Group::thread>();
}

}  // namespace tessera::attention_sm90
