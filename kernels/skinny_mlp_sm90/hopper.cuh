// SPDX-License-Identifier: Apache-2.0
// Hopper's instructions that the kernel uses beside clusters', one function each. Addresses of shared memory
// are 32-bit.
#pragma once

#include <tessera/sync/cluster.cuh>
#include <tessera/sync/shared_barrier.cuh>
#include <tessera/sync/tensor_load.cuh>

namespace tessera::skinny_sm90 {

__device__ inline float4 load_shared(unsigned from) {
  float4 value;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "r"(from)
               : "memory");
  return value;
}

// ---- warpgroups

/// Before the first matrix instruction, and after registers that it reads were written.
__device__ inline void multiply_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void multiply_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most `Pending` committed groups are unfinished.
template <int Pending>
__device__ inline void multiply_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}
/// After multiply_wait(): keeps the compiler from reading the sums before it.
template <int Count>
__device__ inline void settle(float (&sums)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

/// Describes an operand in shared memory: rows of 128 bytes, swizzled in patterns of 8 rows, 1024-byte
/// aligned. `place` is from operand_place(); the sum over k moves on by 2 of its units a step of 16.
__device__ inline unsigned long long operand(unsigned place) {
  constexpr unsigned long long pattern_stride = 1024 >> 4;
  constexpr unsigned long long swizzle_128 = 1;
  return (pattern_stride << 32 | swizzle_128 << 62) | place;
}
/// An address in units of 16 bytes. A shuffle makes it the same in all lanes for the compiler too: where it
/// knows that, it computes descriptors in uniform registers, from which matrix instructions take them.
__device__ inline unsigned operand_place(unsigned address) {
  return __shfl_sync(~0u, ((address & 0x3FFFF) >> 4) | 1u << 16, 0);
}

}  // namespace tessera::skinny_sm90
