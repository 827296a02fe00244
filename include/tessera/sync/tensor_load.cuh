// SPDX-License-Identifier: Apache-2.0
// Loads by the copy engine (TMA) into shared memory, one function for each instruction. For sm_90 and later.
// `map` is a CUtensorMap: of a __grid_constant__ parameter, or in device memory, behind acquire_map().
// Coordinates are in elements, the fastest dimension first. A load adds its bytes to `barrier`.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

namespace tessera {

/// Before the calling thread uses a map in device memory that the host or another kernel has written.
__device__ inline void acquire_map(void const* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}
__device__ inline void prefetch_map(void const* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
/// For what is read once: leaves the L2 first.
__device__ inline unsigned long long streaming_policy() {
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ inline void load_box(unsigned to, void const* map, int x, int y, unsigned barrier,
                                unsigned long long policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(barrier), "l"(policy)
      : "memory");
}
__device__ inline void load_box(unsigned to, void const* map, int x, int y, int z, unsigned barrier,
                                unsigned long long policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier), "l"(policy)
      : "memory");
}
__device__ inline void load_box(unsigned to, void const* map, int x, int y, int z, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}
__device__ inline void load_box(unsigned to, void const* map, int x, int y, int z, int w, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
      "%5}], [%6];" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier)
      : "memory");
}

}  // namespace tessera

#endif
