// SPDX-License-Identifier: Apache-2.0
// A slot of weights is one load of the copy engine: a thread issues one every 300 to 570 cycles, however
// large.
#pragma once

namespace tessera::few_tokens {

/// Loads a box of slot_map() (product_stage.cpp): rows from `row` on of k-blocks from `block` on. Row r of
/// k-block b becomes line b * rows + r of 128 bytes, of which 16 bytes lie at their number xor the line's
/// modulo 8. `to`: 1024-byte aligned. What the matrix does not have reads as zeros, and counts as bytes.
__device__ inline void load_slot(unsigned to, void const* map, int row, int block, unsigned barrier,
                                 unsigned long long policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
      "l"(map), "r"(0), "r"(row), "r"(block), "r"(barrier), "l"(policy)
      : "memory");
}

}  // namespace tessera::few_tokens
