// SPDX-License-Identifier: Apache-2.0
// How a GEMM's weight rows and its depth are dealt out to clusters and blocks. Plain arithmetic, the same on
// host and device.
#pragma once

#include <tessera/sync/config.cuh>

namespace tessera::skinny_sm90 {

constexpr int depth_block = 64;  ///< elements: one 128-byte row of a swizzled tile

/// Posts of one hidden feature: each block of a cluster owns a share of the tokens and posts its part.
constexpr int parts_of_feature = 8;

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

/// One GEMM: `features` outputs, `units` pieces of them. A cluster multiplies `tiles` neighbouring units in
/// each of `waves` waves.
struct Cut {
  int features = 0;
  int rows_per_feature = 1;  ///< 2: gate and up
  int waves = 1;
  int tiles = 1;
  int units = 1;        ///< waves * clusters * tiles
  int box_rows = 1;     ///< rows of a load: the largest unit's
  int slot_rows = 8;    ///< rounded up to the 8 rows of a swizzle pattern
  int depth = 0;        ///< elements
  int stage_depth = 1;  ///< k-blocks to a stage
  int stages = 1;

  TESSERA_HOST_DEVICE constexpr int depth_blocks() const { return (depth + depth_block - 1) / depth_block; }
  TESSERA_HOST_DEVICE constexpr Range unit(int wave, int clusters, int cluster, int tile) const {
    return part(features, units, (wave * clusters + cluster) * tiles + tile);
  }
};

constexpr Cut make_cut(int features, int rows_per_feature, int depth, int waves, int tiles, int stage_depth,
                       int clusters) {
  Cut cut;
  cut.features = features;
  cut.rows_per_feature = rows_per_feature;
  cut.waves = waves;
  cut.tiles = tiles;
  cut.units = waves * clusters * tiles;
  cut.box_rows = (features + cut.units - 1) / cut.units * rows_per_feature;
  cut.slot_rows = (cut.box_rows + 7) / 8 * 8;
  cut.depth = depth;
  cut.stage_depth = stage_depth;
  cut.stages = (cut.depth_blocks() + stage_depth - 1) / stage_depth;
  return cut;
}

}  // namespace tessera::skinny_sm90
