// SPDX-License-Identifier: Apache-2.0
// The bulk copy engine by hand, one thread each: the async proxy of the memory model.
#pragma once

namespace tessera::gpu {

__device__ inline unsigned shared_address(void const* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

/// For bulk_copy(): called by one thread, before a block barrier.
__device__ inline void make_barrier(unsigned long long* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Copies to shared memory and waits for it. `phase` is 0 and 1 in turn.
__device__ inline void bulk_copy(unsigned* shared, unsigned const* global, unsigned bytes,
                                 unsigned long long* barrier, unsigned phase) {
  unsigned const bar = shared_address(barrier);
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(shared)),
      "l"(global), "r"(bytes), "r"(bar)
      : "memory");
  unsigned done = 0;
  while (done == 0)
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(bar), "r"(phase)
        : "memory");
}

/// Sends shared memory off and commits the store, without waiting for it.
__device__ inline void start_bulk_store(unsigned* global, unsigned const* shared, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
               "r"(shared_address(shared)), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

}  // namespace tessera::gpu
