// SPDX-License-Identifier: Apache-2.0
// The kernel: warpgroups that multiply, and one of warps that load.
#pragma once

#include <vector>

#include "compute.cuh"
#include "load.cuh"
#include "pair.cuh"

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
  barrier_init(block.partials_full(), 1);
  barrier_init(block.partials_open(), warps);
  barrier_init(block.stored(), warps);
  barrier_init(block.partials_read(), warps);
  fence_barrier_init();
}

template <class Multiplier>
constexpr int threads_of = (Multiplier::warps + producer_warps) * 32;

template <class Multiplier>
__global__ void __launch_bounds__(threads_of<Multiplier>, 1)
    skinny_mlp(__grid_constant__ Parameters const p) {
  extern __shared__ __align__(1024) unsigned char shared[];
  constexpr int warps = Multiplier::warps;
  constexpr bool pairs = Multiplier::split > 1;
  Block const block(shared, Multiplier::split);
  int const warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0);
  // Early: what follows either waits for this launch or must not depend on it.
  if (threadIdx.x == 0) pdl_trigger();
  // This warp's first loads of weights do not wait until the others are there.
  bool const first = warp == warps;
  if (first) {
    if (threadIdx.x % 32 == 0) init_barriers(block, p.slots, p.activation_stages, warps);
    __syncwarp();
  }
  if constexpr (pairs) {
    cluster_arrive();
    if (!first) cluster_wait();
  } else if (first) {
    asm volatile("barrier.cta.arrive 1, %0;" ::"n"(threads_of<Multiplier>) : "memory");
  } else {
    asm volatile("barrier.cta.sync 1, %0;" ::"n"(threads_of<Multiplier>) : "memory");
  }
  if (warp < warps) {
    Multiplier(p, block).run();
    if (blockIdx.x == 0 && threadIdx.x == 0) count_one(p.launches);
  } else if (warp == warps + weight_warps) {
    load_activations<Multiplier::partials_in_rings>(p, block);
  } else {
    if (threadIdx.x % 32 == 0) load_weights(p, block, warp - warps);
    __syncwarp();
    if constexpr (pairs)
      if (first) cluster_wait();
  }
}

template <template <class Element> class Multiplier>
Instance make_instance(int token_tile, int tiles) {
  using Bf16 = Multiplier<__nv_bfloat16>;
  return {token_tile,
          Bf16::split,
          tiles,
          threads_of<Bf16>,
          reinterpret_cast<void const*>(&skinny_mlp<Bf16>),
          reinterpret_cast<void const*>(&skinny_mlp<Multiplier<__half>>)};
}

template <int N, int Tiles>
struct Single {
  template <class Element>
  using Multiplier = Computer<Element, N, Tiles>;
};
template <int Warpgroups>
struct Pair {
  template <class Element>
  using Multiplier = PairComputer<Element, Warpgroups>;
};

}  // namespace tessera::skinny_sm90
