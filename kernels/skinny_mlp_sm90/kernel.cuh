// SPDX-License-Identifier: Apache-2.0
// The kernel: warpgroups that multiply, and one of warps that load.
#pragma once

#include <vector>

#include "compute.cuh"
#include "load.cuh"

namespace tessera::skinny_sm90 {

__device__ inline void init_barriers(Block const& block, int slots, int stages, int warps) {
  for (int i = 0; i < slots; ++i) {
    barrier_init(block.full(i), 1);
    barrier_init(block.empty(i), warps);
  }
  for (int i = 0; i < stages; ++i) {
    barrier_init(block.activations_full(i), 1);
    barrier_init(block.activations_empty(i), warps);
  }
  barrier_init(block.exchange_open(), warps * block.ranks);
  barrier_init(block.partials_full(), 1);
  barrier_init(block.exchange_over(), warps);
  fence_barrier_init();
}

template <class Element, int N, int Cluster, int Warpgroups, int Tiles>
__global__ void __launch_bounds__(Warpgroups * 128 + producer_warps * 32, 1)
    skinny_mlp(__grid_constant__ Parameters const p) {
  extern __shared__ unsigned char shared[];
  constexpr int warps = Warpgroups * 4;
  // More sums than a thread's share of the registers: the loading warps give theirs.
  constexpr bool many_sums = Tiles * N >= 256;
  Block const block(shared, Cluster);
  int const warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0);
  // Early: what follows either waits for this launch or must not depend on it.
  if (threadIdx.x == 0) pdl_trigger();
  // The first loads of weights are issued before anybody else is ready.
  if (warp == warps) {
    if (threadIdx.x % 32 == 0) init_barriers(block, p.slots, p.activation_stages, warps);
    __syncwarp();
  }
  if constexpr (Cluster > 1)
    cluster_arrive();
  else if (warp == warps)
    asm volatile("barrier.cta.arrive 1, %0;" ::"n"(Warpgroups * 128 + producer_warps * 32) : "memory");
  if (warp != warps) {
    if constexpr (Cluster > 1)
      cluster_wait();
    else
      asm volatile("barrier.cta.sync 1, %0;" ::"n"(Warpgroups * 128 + producer_warps * 32) : "memory");
  }
  if (warp >= warps) {
    if constexpr (many_sums) give_registers<32>();
    int const loader = warp - warps;
    if (loader == producer_warps - 1)
      load_activations(p, block, N);
    else if (threadIdx.x % 32 == 0)
      load_weights(p, block, loader);
    __syncwarp();
    if constexpr (Cluster > 1)
      if (warp == warps) cluster_wait();
  } else {
    if constexpr (many_sums) take_registers<160>();
    Computer<Element, N, Cluster, Warpgroups, Tiles>(p, block).run();
    if (blockIdx.x == 0 && threadIdx.x == 0) count_one(p.launches);
  }
}

template <int N, int Cluster, int Warpgroups, int Tiles>
Instance make_instance() {
  return {N,
          Cluster,
          Warpgroups,
          Tiles,
          reinterpret_cast<void const*>(&skinny_mlp<__nv_bfloat16, N, Cluster, Warpgroups, Tiles>),
          reinterpret_cast<void const*>(&skinny_mlp<__half, N, Cluster, Warpgroups, Tiles>)};
}

}  // namespace tessera::skinny_sm90
