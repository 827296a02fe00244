// SPDX-License-Identifier: Apache-2.0
// What clang's CUDA headers declare, as far as the device library needs it: for a clang that is older than
// the toolkit beside it, and cannot read its headers. Compiled, never run.
#pragma once

#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __grid_constant__
#define __CUDACC__ 1

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  __host__ __device__ constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
  __host__ __device__ constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};
#include <__clang_cuda_builtin_vars.h>

__device__ inline int __syncthreads_and(int all) { return __nvvm_bar0_and(all); }
__device__ inline int __syncthreads_or(int any) { return __nvvm_bar0_or(any); }
__device__ inline void __syncwarp(unsigned mask = ~0u) { __nvvm_bar_warp_sync(mask); }
__device__ inline int __all_sync(unsigned mask, int all) { return __nvvm_vote_all_sync(mask, all); }
__device__ inline int __any_sync(unsigned mask, int any) { return __nvvm_vote_any_sync(mask, any); }
__device__ inline unsigned __ballot_sync(unsigned mask, int one) {
  return __nvvm_vote_ballot_sync(mask, one);
}
__device__ inline unsigned __shfl_sync(unsigned mask, unsigned value, int lane) {
  return static_cast<unsigned>(__nvvm_shfl_sync_idx_i32(mask, static_cast<int>(value), lane, 31));
}
__device__ inline unsigned __activemask() { return __nvvm_vote_ballot(1); }
__device__ inline int __ffs(int value) { return __builtin_ffs(value); }
__device__ inline int __popc(unsigned value) { return __builtin_popcount(value); }
__device__ inline void __threadfence() { __nvvm_membar_gl(); }
__device__ inline void __threadfence_system() { __nvvm_membar_sys(); }
__device__ inline unsigned long long __cvta_generic_to_global(void const* at) {
  return reinterpret_cast<unsigned long long>((__attribute__((address_space(1))) void const*)at);
}
__device__ inline unsigned long long __cvta_generic_to_shared(void const* at) {
  return reinterpret_cast<unsigned long long>((__attribute__((address_space(3))) void const*)at);
}
