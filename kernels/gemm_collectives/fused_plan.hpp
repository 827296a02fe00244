// SPDX-License-Identifier: Apache-2.0
// How the one launch of Way::fused is cut: the same on every rank, because packets lie in memory by it.
#pragma once

#include <algorithm>
#include <tessera/sync/config.cuh>

namespace tessera::gemm_collectives {

/// Rows of `a` at most: four tiles of eight.
constexpr int k_most_fused_rows = 32;

/// A block has `tiles` tiles of 16 columns of d at a time, `passes` times; a tile's depth is split among
/// `splits` warps.
struct FusedPlan {
  int tiles = 0;
  int splits = 0;
  int passes = 0;
  int blocks = 0;
  int row_tiles = 0;  ///< of eight rows of a

  static constexpr int k_columns = 16;      ///< of a tile
  static constexpr int k_warp_depth = 128;  ///< that a warp multiplies at a time
  static constexpr int k_buffers = 3;       ///< of rows of a in shared memory
  static constexpr int k_elements = 6;      ///< of a packet
  static constexpr int k_most_warps = 16;
  static constexpr int k_most_passes = 4;

  TESSERA_HOST_DEVICE constexpr int threads() const { return 32 * tiles * splits; }
  TESSERA_HOST_DEVICE constexpr int columns() const { return tiles * k_columns; }
  TESSERA_HOST_DEVICE constexpr int depth() const { return splits * k_warp_depth; }
  /// Of a block in one pass.
  TESSERA_HOST_DEVICE constexpr int packets(int rows) const {
    return (rows * columns() + k_elements - 1) / k_elements;
  }
  /// Of one rank in one launch.
  TESSERA_HOST_DEVICE constexpr long long all_packets(int rows) const {
    return 1LL * blocks * passes * packets(rows);
  }

  // Shared memory, bytes: rows of a, sums of the splits, own results as words.
  TESSERA_HOST_DEVICE constexpr int row_stride() const { return 2 * depth() + 64; }
  TESSERA_HOST_DEVICE constexpr int buffer_bytes() const { return 8 * row_tiles * row_stride(); }
  TESSERA_HOST_DEVICE constexpr int sum_stride() const { return columns() + 4; }  // floats
  TESSERA_HOST_DEVICE constexpr int sums_at() const { return k_buffers * buffer_bytes(); }
  TESSERA_HOST_DEVICE constexpr int own_at() const {
    return sums_at() + 4 * splits * 8 * row_tiles * sum_stride();
  }
  TESSERA_HOST_DEVICE constexpr int shared_bytes(int rows) const {
    return own_at() + 12 * passes * packets(rows);
  }
};

/// tiles 0: not for these sizes.
constexpr FusedPlan fused_plan(int rows, int columns) {
  // As an H200 has; another number is right, too, but slower.
  constexpr int k_sms = 132, k_most_tiles = 8, k_most_splits = 8;
  FusedPlan plan;
  if (rows < 1 || rows > k_most_fused_rows || columns < 1) return plan;
  plan.row_tiles = rows <= 8 ? 1 : rows <= 16 ? 2 : 4;
  int const tiles = (columns + FusedPlan::k_columns - 1) / FusedPlan::k_columns;
  // So that the SMs have as much to do as each other; then in few passes.
  for (int passes = 1; passes <= FusedPlan::k_most_passes; ++passes) {
    int const each = (tiles + k_sms * passes - 1) / (k_sms * passes);
    if (each > k_most_tiles || (plan.tiles > 0 && each * passes >= plan.tiles * plan.passes)) continue;
    plan.passes = passes;
    plan.tiles = each;
  }
  if (plan.tiles == 0) return {};
  plan.blocks = (tiles + plan.tiles * plan.passes - 1) / (plan.tiles * plan.passes);
  // More rows leave less shared memory for a chunk of depth.
  int const most = std::min(k_most_splits, FusedPlan::k_most_warps / plan.row_tiles);
  plan.splits = std::clamp(FusedPlan::k_most_warps / plan.tiles, 1, most);
  return plan;
}

}  // namespace tessera::gemm_collectives
