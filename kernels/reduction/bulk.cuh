// SPDX-License-Identifier: Apache-2.0
// The same share through the copy engine (sm_90): a ring of stages in shared memory that one thread keeps
// filled, so that what is in flight is bounded by shared memory and not by registers.
#pragma once

#include "load.cuh"

namespace tessera::reduction {

constexpr int k_ring_bytes = 192 * 1024;

namespace detail {

__device__ __forceinline__ unsigned shared_address(void const* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void barrier_init(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// The hardware's own wait; it ends because the phase ends: copies complete, and no thread leaves early.
__device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ void copy_in(unsigned to, void const* from, unsigned bytes, unsigned barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

}  // namespace detail

/// Pieces of at most Threads * Unroll vectors, dealt to the blocks in turn; smaller ones where that gives
/// every block one. Called by all threads, once in a kernel; k_ring_bytes of dynamic shared memory.
template <class T, int Threads, int Unroll>
__device__ __forceinline__ T share_by_bulk(Cut const& cut) {
  constexpr unsigned stage_vectors = Threads * Unroll;
  constexpr unsigned stages = k_ring_bytes / (stage_vectors * 16);
  extern __shared__ __align__(128) uint4 ring[];
  __shared__ __align__(8) unsigned long long full[stages], empty[stages];
  T const edge = edge_of<T>(cut);
  unsigned piece = stage_vectors;
  if (cut.count < static_cast<std::size_t>(gridDim.x) * stage_vectors)
    piece = static_cast<unsigned>((cut.count + gridDim.x - 1) / gridDim.x);
  std::size_t const pieces = piece == 0 ? 0 : (cut.count + piece - 1) / piece;
  std::size_t const mine =
      blockIdx.x < pieces ? (pieces - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;  // of the pieces
  auto const vectors_of = [&](std::size_t k) {
    std::size_t const begin = (blockIdx.x + k * gridDim.x) * piece;
    return static_cast<unsigned>(cut.count - begin < piece ? cut.count - begin : piece);
  };
  auto const fetch = [&](std::size_t k) {
    unsigned const stage = static_cast<unsigned>(k % stages);
    detail::copy_in(detail::shared_address(ring + stage * stage_vectors),
                    cut.vectors + (blockIdx.x + k * gridDim.x) * piece, vectors_of(k) * 16,
                    detail::shared_address(full + stage));
  };
  if (threadIdx.x == 0) {
    for (unsigned s = 0; s < stages; ++s) {
      detail::barrier_init(detail::shared_address(full + s), 1);
      detail::barrier_init(detail::shared_address(empty + s), Threads / 32);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    for (std::size_t k = 0; k < mine && k < stages; ++k) fetch(k);
  }
  __syncthreads();
  Lanes<T> lanes;
  unsigned stage = 0, parity = 0;
  for (std::size_t k = 0; k < mine; ++k) {
    detail::barrier_wait(detail::shared_address(full + stage), parity);
    unsigned const vectors = vectors_of(k);
    uint4 const* const from = ring + stage * stage_vectors;
    if (vectors == stage_vectors) {
#pragma unroll
      for (int u = 0; u < Unroll; ++u) lanes.add(from[threadIdx.x + u * Threads]);
    } else {
      for (unsigned i = threadIdx.x; i < vectors; i += Threads) lanes.add(from[i]);
    }
    if (k + stages < mine) {
      __syncwarp();
      if (threadIdx.x % 32 == 0) detail::barrier_arrive(detail::shared_address(empty + stage));
      if (threadIdx.x == 0) {
        detail::barrier_wait(detail::shared_address(empty + stage), parity);
        fetch(k + stages);
      }
    }
    if (++stage == stages) stage = 0, parity ^= 1;
  }
  return lanes.sum() + edge;
}

}  // namespace tessera::reduction
