// SPDX-License-Identifier: Apache-2.0
// Barriers in shared memory (mbarrier), one function for each instruction. For sm_90 and later. Addresses of
// shared memory are 32-bit; a barrier is 8 bytes, 8-byte aligned.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

namespace tessera {

__device__ inline unsigned shared_address(void const* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ inline void barrier_init(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// Makes initialized barriers known to the cluster and to the copy engine.
__device__ inline void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void barrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives, and lets the phase wait for so many more bytes.
__device__ inline void barrier_expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
/// Has the phase of this parity ended? Sleeps a while before it says no. (With a time limit of its own the
/// compiler makes it a longer sleep that wakes late.)
__device__ inline bool barrier_try(unsigned barrier, unsigned parity) {
  unsigned yes;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(yes)
               : "r"(barrier), "r"(parity)
               : "memory");
  return yes != 0;
}
/// The same, but never sleeps.
__device__ inline bool barrier_test(unsigned barrier, unsigned parity) {
  unsigned yes;
  asm volatile(
      "{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(yes)
      : "r"(barrier), "r"(parity)
      : "memory");
  return yes != 0;
}

/// A place in a ring of barriers. The parity is the one that a reader waits for.
struct RingPlace {
  int index = 0;
  unsigned parity = 0;
  __device__ void next(int size) {
    if (++index == size) {
      index = 0;
      parity ^= 1;
    }
  }
};

}  // namespace tessera

#endif
