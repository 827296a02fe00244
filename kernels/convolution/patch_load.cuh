// SPDX-License-Identifier: Apache-2.0
// Loads of the copy engine: pixels around a tile's, and filters. Both are lines of 128 bytes, one chunk of
// channels each, of which 16 bytes lie at their number xor the line's modulo 8.
#pragma once

namespace tessera::convolution {

/// A box of pixels from column x and row y on, of images from `image` on. What lies around an image reads as
/// zeros, and counts as bytes. `to`: 1024-byte aligned.
__device__ inline void load_patch(unsigned to, void const* map, int channel, int x, int y, int image,
                                  unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
      "l"(map), "r"(channel), "r"(x), "r"(y), "r"(image), "r"(barrier)
      : "memory");
}

}  // namespace tessera::convolution
