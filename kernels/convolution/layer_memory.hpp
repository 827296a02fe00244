// SPDX-License-Identifier: Apache-2.0
// Shared memory of a block where a layer is a launch of its own (layer_kernel.cuh). For device code, too.
#pragma once

#include "kernels/convolution/stage.hpp"

namespace tessera::convolution {

/// Offsets in bytes from a base that is 1024-byte aligned: a ring of filters, a ring of pixels, sums that
/// meet, where columns lie, stamps, barriers.
struct LayerMemory {
  int slots = 0, slot_bytes = 0;
  int patches = 0, patch_bytes = 0;
  int sum_bytes = 0;  ///< of the sums of all warps and blocks that share the tile's depth

  TESSERA_HOST_DEVICE constexpr int slot(int i) const { return i * slot_bytes; }
  TESSERA_HOST_DEVICE constexpr int patch(int i) const { return slots * slot_bytes + i * patch_bytes; }
  TESSERA_HOST_DEVICE constexpr int sums() const { return patch(patches); }
  TESSERA_HOST_DEVICE constexpr int columns() const { return sums() + sum_bytes; }
  TESSERA_HOST_DEVICE constexpr int stamps() const { return columns() + 8 * k_most_columns; }
  TESSERA_HOST_DEVICE constexpr int full(int i) const { return stamps() + 32 + 8 * i; }
  TESSERA_HOST_DEVICE constexpr int empty(int i) const { return full(slots + i); }
  TESSERA_HOST_DEVICE constexpr int patch_full(int i) const { return full(2 * slots + i); }
  TESSERA_HOST_DEVICE constexpr int patch_empty(int i) const { return full(2 * slots + patches + i); }
  /// Counts what the blocks of the cluster send.
  TESSERA_HOST_DEVICE constexpr int exchanged() const { return full(2 * (slots + patches)); }
  TESSERA_HOST_DEVICE constexpr int bytes() const { return exchanged() + 8; }
};

/// Sums that are added up for each result.
TESSERA_HOST_DEVICE constexpr int sources_of(Cut const& cut) { return cut.depth_warps * cut.splits; }

/// Of a thread. Blocks with no more than k_sums_of_half have registers for two of them on an SM.
TESSERA_HOST_DEVICE constexpr int layer_sums(Cut const& cut) {
  return 4 * cut.column_tiles * (cut.wide != 0 ? 1 : cut.row_tiles);
}
constexpr int k_sums_of_half = 56;

}  // namespace tessera::convolution
