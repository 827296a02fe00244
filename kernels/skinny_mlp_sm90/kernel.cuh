// SPDX-License-Identifier: Apache-2.0
// The kernel: warpgroups that multiply, and one of warps that load.
#pragma once

#include <vector>

#include "compute.cuh"
#include "load.cuh"

namespace tessera::skinny_sm90 {

__device__ inline void init_barriers(Block const& block, int slots, int stages, int warps, int share) {
  for (int i = 0; i < slots; ++i) {
    barrier_init(block.full(i), 1);
    barrier_init(block.empty(i), warps);
  }
  for (int i = 0; i < stages; ++i) {
    barrier_init(block.activations_full(i), 1);
    barrier_init(block.activations_empty(i), warps * share);
  }
  fence_barrier_init();
}

template <class Element, int N, int Share, int Warpgroups, int Tiles>
__global__ void __launch_bounds__(Warpgroups * 128 + producer_warps * 32, 1)
    skinny_mlp(__grid_constant__ Parameters const p) {
  extern __shared__ unsigned char shared[];
  constexpr int warps = Warpgroups * 4;
  constexpr int threads = (warps + producer_warps) * 32;
  Block const block(shared);
  int const warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0);
  // Early: what follows either waits for this launch or must not depend on it.
  if (threadIdx.x == 0) pdl_trigger();
  // This warp's first loads of weights do not wait until the others are there.
  bool const first = warp == warps;
  if (first) {
    if (threadIdx.x % 32 == 0) init_barriers(block, p.slots, p.activation_stages, warps, Share);
    __syncwarp();
  }
  if constexpr (Share > 1) {
    cluster_arrive();
    if (!first) cluster_wait();
  } else if (first) {
    asm volatile("barrier.cta.arrive 1, %0;" ::"n"(threads) : "memory");
  } else {
    asm volatile("barrier.cta.sync 1, %0;" ::"n"(threads) : "memory");
  }
  if (warp < warps) {
    Computer<Element, N, Share, Warpgroups, Tiles>(p, block).run();
    if (block.index == 0 && threadIdx.x == 0) count_one(p.launches);
  } else if (warp == warps + weight_warps) {
    load_activations<N, Share>(p, block);
  } else {
    if (threadIdx.x % 32 == 0) load_weights(p, block, warp - warps);
    __syncwarp();
    if constexpr (Share > 1)
      if (first) cluster_wait();
  }
}

template <int N, int Share, int Warpgroups, int Tiles>
Instance make_instance() {
  return {N,
          Share,
          Warpgroups,
          Tiles,
          reinterpret_cast<void const*>(&skinny_mlp<__nv_bfloat16, N, Share, Warpgroups, Tiles>),
          reinterpret_cast<void const*>(&skinny_mlp<__half, N, Share, Warpgroups, Tiles>)};
}

}  // namespace tessera::skinny_sm90
