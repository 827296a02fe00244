// SPDX-License-Identifier: Apache-2.0
// Warps that are late, for tests: whatever the order in which they come, nothing may change.
#pragma once

namespace tessera::lattice_boltzmann {

/// Lets one of eight warps sleep up to 4 us. `seed` 0: none.
__device__ inline void dawdle(unsigned seed, unsigned step) {
  if (seed == 0) return;
  unsigned word = (blockIdx.x * 32 + threadIdx.x / 32) * 0x9E3779B9u ^ (step + seed) * 0x85EBCA6Bu;
  word ^= word >> 15, word *= 0x2C1B3C6Du, word ^= word >> 12;
  // All warps sleep, most of them for no time: behind a branch that may diverge ptxas makes the descriptor of
  // each load anew, 100 instructions of a step.
  __nanosleep(word % 8 == 0 ? word >> 8 & 4095 : 0);
}

}  // namespace tessera::lattice_boltzmann
