// SPDX-License-Identifier: Apache-2.0
#include "floor.hpp"

#include "kernels/skinny_mlp_sm90/hopper.cuh"

namespace tessera::bench {
namespace {

using namespace skinny_sm90;

constexpr int chunk = 16384;
constexpr int ring = 12;

// One thread of a block keeps `ring` chunks in flight.
__global__ void __launch_bounds__(32, 1) read_chunks(unsigned char const* memory, std::size_t chunks) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ __align__(8) unsigned long long barriers[ring];
  if (threadIdx.x != 0) return;
  unsigned const base = shared_address(shared);
  unsigned const barrier = shared_address(barriers);
  for (int i = 0; i < ring; ++i) barrier_init(barrier + 8 * i, 1);
  fence_barrier_init();
  unsigned long long const policy = streaming_policy();
  auto start = [&](std::size_t i, int slot) {
    barrier_expect(barrier + 8 * slot, chunk);
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
        "[%3], %4;" ::"r"(base + slot * chunk),
        "l"(memory + i * chunk), "r"(chunk), "r"(barrier + 8 * slot), "l"(policy)
        : "memory");
  };
  std::size_t next = blockIdx.x;
  int pending = 0;
  for (; pending < ring && next < chunks; ++pending, next += gridDim.x) start(next, pending);
  for (int slot = 0, parity = 0; pending > 0;) {
    while (!barrier_try(barrier + 8 * slot, parity))
      ;
    if (next < chunks) {
      start(next, slot);
      next += gridDim.x;
    } else {
      --pending;
    }
    if (++slot == ring) {
      slot = 0;
      parity ^= 1;
    }
  }
}

}  // namespace

cudaError_t stream_through(void const* memory, std::size_t bytes, int blocks, cudaStream_t stream) {
  auto const e = cudaFuncSetAttribute(read_chunks, cudaFuncAttributeMaxDynamicSharedMemorySize, ring * chunk);
  if (e != cudaSuccess) return e;
  read_chunks<<<blocks, 32, ring * chunk, stream>>>(static_cast<unsigned char const*>(memory), bytes / chunk);
  return cudaGetLastError();
}

}  // namespace tessera::bench
