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

/// One GEMM: `features` outputs, `units` pieces of them. A group of blocks (one, or a cluster of two that
/// split the depth) multiplies `tiles` neighbouring units in each of `waves` waves.
struct Cut {
  int features = 0;
  int rows_per_feature = 1;  ///< 2: gate and up
  int granule = 1;           ///< a unit has a multiple of so many features
  int waves = 1;
  int tiles = 1;
  int units = 1;        ///< waves * groups * tiles
  int box_rows = 1;     ///< rows of a load: the largest unit's
  int slot_rows = 8;    ///< rounded up to the 8 rows of a swizzle pattern
  int split = 1;        ///< blocks of a group, each of which multiplies a part of the depth
  int depth = 0;        ///< elements
  int stage_depth = 1;  ///< k-blocks to a slot
  int stages = 1;       ///< slots of one unit
  int part_blocks = 1;  ///< k-blocks of each block of a group; may run over the end, where zeros are loaded

  TESSERA_HOST_DEVICE constexpr int depth_blocks() const { return (depth + depth_block - 1) / depth_block; }
  TESSERA_HOST_DEVICE constexpr Range unit(int wave, int groups, int group, int tile) const {
    Range const of = part(features / granule, units, (wave * groups + group) * tiles + tile);
    return {of.begin * granule, of.end * granule};
  }
};

/// `features` is a multiple of `granule`; `whole` of `stage_depth`, or the other way round. A block
/// multiplies a multiple of both.
constexpr Cut make_cut(int features, int rows_per_feature, int depth, int waves, int tiles, int stage_depth,
                       int groups, int split = 1, int granule = 1, int whole = 1) {
  Cut cut;
  cut.features = features;
  cut.rows_per_feature = rows_per_feature;
  cut.granule = granule;
  cut.waves = waves;
  cut.tiles = tiles;
  cut.units = waves * groups * tiles;
  cut.box_rows = (features / granule + cut.units - 1) / cut.units * granule * rows_per_feature;
  cut.slot_rows = (cut.box_rows + 7) / 8 * 8;
  cut.split = split;
  cut.depth = depth;
  cut.stage_depth = stage_depth;
  whole = stage_depth > whole ? stage_depth : whole;
  int const each = (cut.depth_blocks() + split - 1) / split;
  cut.part_blocks = (each + whole - 1) / whole * whole;
  cut.stages = cut.part_blocks / stage_depth;
  return cut;
}

/// Rows of weights that a pair of blocks multiplies at once are the columns of a matrix instruction.
/// Multiples of 16, since each block of a pair finishes half of them.
constexpr int most_pair_rows = 192;
TESSERA_HOST_DEVICE constexpr int pair_columns(int rows) {
  return rows <= 64 ? 64 : rows <= 96 ? 96 : rows <= 128 ? 128 : most_pair_rows;
}

}  // namespace tessera::skinny_sm90
