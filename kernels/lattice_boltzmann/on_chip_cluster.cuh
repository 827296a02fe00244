// SPDX-License-Identifier: Apache-2.0
// Blocks of a cluster: cells of the rim reach into each other's shared memory, in steps that reach out, and a
// word for each neighbour says that its rim is done. Nothing is shown or taken inside a cluster.
//
// A place is read and written by one cell in a step: in a local step by its own, in the next one by the cell
// in the neighbour's block. So a block begins a rim when its neighbours' rims of the step before are done,
// and needs no other word.
#pragma once

#include <tessera/sync/cluster.cuh>
#include <tessera/sync/shared_barrier.cuh>

#include "kernels/lattice_boltzmann/on_chip.hpp"

namespace tessera::lattice_boltzmann {

__device__ inline float load_in_cluster(unsigned from) {
  float value;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(from));
  return value;
}
__device__ inline void store_in_cluster(unsigned to, float value) {
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(to), "f"(value) : "memory");
}

/// A row from shared memory, each time that it is asked for: ptxas would keep the 19 addresses of a cell
/// through its update, for which there are no registers.
__device__ inline ReachRow look_up(ReachRow const* row) {
  ReachRow copy;
  unsigned const from = shared_address(row);
#pragma unroll
  for (int i = 0; i < 20; i += 4)
    asm volatile("ld.volatile.shared.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(copy.bytes[i]), "=r"(copy.bytes[i + 1]), "=r"(copy.bytes[i + 2]),
                   "=r"(copy.bytes[i + 3])
                 : "r"(from + 4 * static_cast<unsigned>(i)));
  return copy;
}

/// scatter() and step_chip_cell() of a cell whose address is one of the cluster's.
__device__ inline void scatter_in_cluster(unsigned cell, ClusterPlaces const& places,
                                          float const (&f)[k_directions]) {
  ReachRow const row = look_up(places.row);
#pragma unroll
  for (int i = 0; i < k_directions; ++i)
    store_in_cluster(cell + static_cast<unsigned>(places.way(row, i)), f[opposite(i)]);
}
__device__ inline void step_in_cluster(unsigned cell, ClusterPlaces const& places, unsigned lids,
                                       Relaxation<float> const& of) {
  float f[k_directions];
  {
    ReachRow const row = look_up(places.row);
#pragma unroll
    for (int i = 0; i < k_directions; ++i)
      f[i] = load_in_cluster(cell + static_cast<unsigned>(places.way(row, i)));
  }
  add_lids(lids, of, f);
  collide(f, of);
  scatter_in_cluster(cell, places, f);
}

/// Makes distances between memories of the ranks in a block's tables, called by all threads. `cells`: the
/// block's first.
__device__ inline void find_memories(ChipConstants& block, unsigned cells) {
  unsigned const own = in_block(cells, cluster_rank());
  for (int k = static_cast<int>(threadIdx.x); k < k_reach_rows * k_directions; k += k_chip_threads) {
    int& place = block.reach[k / k_directions].bytes[k % k_directions];
    int const rank = rank_of(place);
    if (rank >= 0)
      place = bytes_of(place) + static_cast<int>(in_block(cells, static_cast<unsigned>(rank)) - own);
  }
}

/// Tells the neighbours in the cluster that the rim of `step` is done, by one warp behind a barrier of the
/// block. `told`: a word for each rank, at the same place in all blocks.
__device__ inline void tell_partners(ChipConstants const& block, unsigned* told, unsigned step) {
  int const lane = static_cast<int>(threadIdx.x) % 32;
  if (lane >= block.partners) return;
  unsigned const to =
      in_block(shared_address(told + cluster_rank()), static_cast<unsigned>(block.partner[lane]));
  asm volatile("st.release.cluster.shared::cluster.u32 [%0], %1;" ::"r"(to), "r"(step + 1) : "memory");
}

/// Waits until they have told the same. The place of a wait that meets its deadline is its neighbour's rank.
__device__ inline bool wait_for_partners(ChipConstants const& block, unsigned const* told, unsigned step,
                                         DeadlineWatch<> const& watch) {
  int const lane = static_cast<int>(threadIdx.x) % 32;
  if (lane >= block.partners) return true;
  int const rank = block.partner[lane];
  unsigned const from = shared_address(told + rank), target = step + 1;
  // Relaxed: an acquire at each look would empty the SM's cache each time.
  auto const look = [&] {
    unsigned seen;
    asm volatile("ld.relaxed.cluster.shared::cta.u32 %0, [%1];" : "=r"(seen) : "r"(from) : "memory");
    return seen;
  };
  unsigned seen = look();
  auto patience = watch.begin();
  WaitPlace const place{0, block.number, partner_wait_of(rank)};
  while (!reached(seen, target)) {
    if (!watch.go_on(patience, place, seen, target)) return false;
    seen = look();
  }
  asm volatile("ld.acquire.cluster.shared::cta.u32 %0, [%1];" : "=r"(seen) : "r"(from) : "memory");
  return true;
}

}  // namespace tessera::lattice_boltzmann
