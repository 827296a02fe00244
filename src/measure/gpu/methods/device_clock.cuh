// SPDX-License-Identifier: Apache-2.0
// The two clocks of a GPU, and spins of a known length. nanosleep is no clock: it sleeps for anything from
// nothing to twice its argument (PTX ISA).
#pragma once

#include <cuda_runtime.h>

namespace tessera::probe {

/// Of this SM alone, at its present clock.
__device__ inline long long cycles() { return clock64(); }

/// The same for all SMs; advances in steps (timer.globaltimer.step), so use it for ten steps and more.
__device__ inline unsigned long long global_ns() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}

__device__ inline unsigned sm_index() {
  unsigned index;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(index));
  return index;
}

__device__ inline void spin_cycles(long long count) {
  long long const begin = cycles();
  while (cycles() - begin < count) {
  }
}

__device__ inline void spin_until_ns(unsigned long long time) {
  while (global_ns() < time) {
  }
}

}  // namespace tessera::probe
