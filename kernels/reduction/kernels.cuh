// SPDX-License-Identifier: Apache-2.0
// The kernels, and the table of those that are compiled for an element type.
#pragma once

#include <vector>

#include "bulk.cuh"
#include "combine.cuh"
#include "load.cuh"

namespace tessera::reduction {

/// At least 1024 threads of an SM: with_variant() counts on it.
template <Loads L, int Threads>
constexpr int k_blocks_per_sm = L == Loads::bulk || Threads < 128 ? 1 : 1024 / Threads;

/// Launched programmatically, it lets the next kernel start as soon as there is room, fetches into the L2
/// what it will read first, and only then waits for the kernels before.
template <class T, Variant V, Loads L, int Threads, int Unroll>
__global__ __launch_bounds__(Threads, k_blocks_per_sm<L, Threads>) void sum_kernel(
    __grid_constant__ Arguments const a) {
  __shared__ Scratch<Threads, T> scratch;
  constexpr int blocks = V == Variant::one_block ? 1 : 0;
  // For the second of two launches, which may be programmatic where this one is not.
  if constexpr (V == Variant::two_launches) pdl_trigger();
  if (a.programmatic) {
    pdl_trigger();
    if (a.fetch_bytes > 0) fetch_share<Threads, blocks>(a.x, a.fetch_bytes);
    pdl_wait();
  }
  if constexpr (V == Variant::clusters) open_cluster(scratch);
  unsigned long long const base = base_of<V>(*a.workspace);
  T share;
  if constexpr (L == Loads::bulk)
    share = share_by_bulk<T, Threads, Unroll>(a.x);
  else
    share = share_by_vectors<T, Threads, Unroll, blocks>(a.x);
  combine<V, Threads>(a, block_sum<Threads>(share, scratch.warps), base, scratch);
}

/// The second of two launches: `count` sums of blocks.
template <class T, int Threads>
__global__ __launch_bounds__(Threads) void second_kernel(__grid_constant__ Arguments const a,
                                                         unsigned const count) {
  __shared__ __align__(16) T scratch[Threads / 32];
  pdl_wait();
  T const total = sum_of_sums<Threads, T>(a.workspace->sums, count, scratch);
  if (threadIdx.x == 0) *static_cast<T*>(a.out) = total;
}
constexpr int k_second_threads = 512;

template <class T, Loads L, int Threads, int Unroll>
void add_kernels(Element element, std::vector<Kernel>& to) {
  Shape const shape{L, Threads, Unroll};
  int const shared = L == Loads::bulk ? k_ring_bytes : 0;
  auto const add = [&](Variant variant, auto* kernel) {
    to.push_back({element, variant, shape, reinterpret_cast<void const*>(kernel), shared});
  };
  add(Variant::one_block, sum_kernel<T, Variant::one_block, L, Threads, Unroll>);
  if constexpr (Threads >= 128) {
    add(Variant::data_token, sum_kernel<T, Variant::data_token, L, Threads, Unroll>);
    add(Variant::last_block, sum_kernel<T, Variant::last_block, L, Threads, Unroll>);
    add(Variant::grid_barrier, sum_kernel<T, Variant::grid_barrier, L, Threads, Unroll>);
    add(Variant::clusters, sum_kernel<T, Variant::clusters, L, Threads, Unroll>);
    add(Variant::cooperative, sum_kernel<T, Variant::cooperative, L, Threads, Unroll>);
    add(Variant::two_launches, sum_kernel<T, Variant::two_launches, L, Threads, Unroll>);
    add(Variant::two_launches_pdl, sum_kernel<T, Variant::two_launches, L, Threads, Unroll>);
  }
}

/// Every shape of shapes() (config.hpp) for one type, and the second kernel.
template <class T>
std::vector<Kernel> make_kernels(Element element) {
  std::vector<Kernel> all;
  add_kernels<T, Loads::vector, 32, 8>(element, all);
  add_kernels<T, Loads::vector, 128, 8>(element, all);
  add_kernels<T, Loads::vector, 256, 4>(element, all);
  add_kernels<T, Loads::vector, 256, 8>(element, all);
  add_kernels<T, Loads::vector, 512, 4>(element, all);
  add_kernels<T, Loads::vector, 512, 8>(element, all);
  add_kernels<T, Loads::vector, 1024, 2>(element, all);
  add_kernels<T, Loads::vector, 1024, 4>(element, all);
  add_kernels<T, Loads::vector, 1024, 8>(element, all);
  add_kernels<T, Loads::bulk, 256, 4>(element, all);
  add_kernels<T, Loads::bulk, 512, 2>(element, all);
  return all;
}

}  // namespace tessera::reduction
