// SPDX-License-Identifier: Apache-2.0
// Copies of contiguous memory into shared memory by the copy engine, and reads of shared memory by address.
// For sm_90 and later.
#pragma once

namespace tessera::decode {

/// Addresses and bytes: multiples of 16.
__device__ inline void load_bulk(unsigned to, void const* from, unsigned bytes, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
__device__ inline void load_bulk(unsigned to, void const* from, unsigned bytes, unsigned barrier,
                                 unsigned long long policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
      "[%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}

__device__ inline unsigned load_shared(unsigned address) {
  unsigned word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}

}  // namespace tessera::decode
