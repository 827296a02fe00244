// SPDX-License-Identifier: Apache-2.0
// The wait of the library and the same loop by hand: tests compare their machine code.
#include "tessera/sync.cuh"

extern "C" __global__ void wait_by_library(unsigned const* semaphore, unsigned target, int* done) {
  tessera::wait_until<tessera::Scope::device>(semaphore, target, tessera::NoWatch{}, tessera::WaitPlace{});
  *done = 1;
}

extern "C" __global__ void wait_by_hand(unsigned const* semaphore, unsigned target, int* done) {
  unsigned long long const at = __cvta_generic_to_global(semaphore);
  unsigned seen;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(at) : "memory");
  while (static_cast<int>(seen - target) < 0)
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(at) : "memory");
  *done = 1;
}
