// SPDX-License-Identifier: Apache-2.0
// Which half of the L2 a word is in, as seen from the SM that asks.
#pragma once

#include "device_clock.cuh"

namespace tessera::probe {

/// Cycles of an answered atomic that changes nothing. One waits for the other, so that the clock is not read
/// too early.
__device__ inline int cycles_to(unsigned* word) {
  unsigned seen = 0;
  long long const begin = cycles();
  for (int i = 0; i < 5; ++i)
    asm volatile("atom.relaxed.gpu.and.b32 %0, [%1], 0xffffffff;"
                 : "=r"(seen)
                 : "l"(word + (seen >> 31))
                 : "memory");
  return static_cast<int>((cycles() - begin) / 4);
}

}  // namespace tessera::probe
