// SPDX-License-Identifier: Apache-2.0
// How a GEMM's weight rows and its depth are dealt out to blocks. Plain arithmetic, the same on
// host and device.
#pragma once

#include <tessera/sync/config.cuh>

namespace tessera::skinny_sm90 {

constexpr int depth_block = 64;  ///< elements: one 128-byte row of a swizzled tile

struct Range {
  int begin = 0;
  int end = 0;
  TESSERA_HOST_DEVICE constexpr int size() const { return end - begin; }
};

/// Part `i` of `parts` of `total`, as even as can be.
TESSERA_HOST_DEVICE constexpr Range part(int total, int parts, int i) {
  return {static_cast<int>(static_cast<long long>(total) * i / parts),
          static_cast<int>(static_cast<long long>(total) * (i + 1) / parts)};
}

/// One GEMM: `features` outputs, `units` pieces of them. A block multiplies `tiles` neighbouring units in
/// each of `waves` waves.
struct Cut {
  int features = 0;
  int rows_per_feature = 1;  ///< 2: gate and up
  int waves = 1;
  int tiles = 1;
  int units = 1;        ///< waves * blocks * tiles
  int box_rows = 1;     ///< rows of a load: the largest unit's
  int slot_rows = 8;    ///< rounded up to the 8 rows of a swizzle pattern
  int depth = 0;        ///< elements
  int stage_depth = 1;  ///< k-blocks to a slot
  int stages = 1;       ///< slots of one unit

  TESSERA_HOST_DEVICE constexpr int depth_blocks() const { return (depth + depth_block - 1) / depth_block; }
  TESSERA_HOST_DEVICE constexpr Range unit(int wave, int blocks, int block, int tile) const {
    return part(features, units, (wave * blocks + block) * tiles + tile);
  }
};

constexpr Cut make_cut(int features, int rows_per_feature, int depth, int waves, int tiles, int stage_depth,
                       int blocks) {
  Cut cut;
  cut.features = features;
  cut.rows_per_feature = rows_per_feature;
  cut.waves = waves;
  cut.tiles = tiles;
  cut.units = waves * blocks * tiles;
  cut.box_rows = (features + cut.units - 1) / cut.units * rows_per_feature;
  cut.slot_rows = (cut.box_rows + 7) / 8 * 8;
  cut.depth = depth;
  cut.stage_depth = stage_depth;
  cut.stages = (cut.depth_blocks() + stage_depth - 1) / stage_depth;
  return cut;
}

}  // namespace tessera::skinny_sm90
