// SPDX-License-Identifier: Apache-2.0
// A grid of tiles and a tile of it. Coordinates follow the grid's dimensions, the first one fastest
// (as CUDA's x): linear = c0 + e0 * (c1 + e1 * (c2 + e2 * c3)).
#pragma once

#include "config.cuh"

namespace tessera {

constexpr int k_max_rank = 4;

/// Number of tiles along each dimension; unused dimensions are 1.
struct TileGrid {
  int rank = 1;
  int extent[k_max_rank] = {1, 1, 1, 1};

  TESSERA_HOST_DEVICE constexpr long long tiles() const {
    return 1LL * extent[0] * extent[1] * extent[2] * extent[3];
  }
};

/// Unused coordinates are 0.
struct Tile {
  int at[k_max_rank] = {0, 0, 0, 0};
};

/// Row-major position of a tile, 0 <= result < grid.tiles().
TESSERA_HOST_DEVICE constexpr long long linear_of(TileGrid const& grid, Tile const& tile) {
  return tile.at[0] +
         1LL * grid.extent[0] *
             (tile.at[1] + 1LL * grid.extent[1] * (tile.at[2] + 1LL * grid.extent[2] * tile.at[3]));
}

/// Inverse of linear_of.
TESSERA_HOST_DEVICE constexpr Tile tile_of(TileGrid const& grid, long long linear) {
  Tile tile;
  // One dimension needs no division, and a compiler that knows the grid none of this.
  if (grid.extent[0] == grid.tiles() && grid.tiles() <= 0x7fffffff) {
    tile.at[0] = static_cast<int>(linear);
    return tile;
  }
  // Nearly all grids: 32-bit arithmetic, which takes a GPU a fraction of the time.
  if (grid.tiles() <= 0x7fffffff) {
    unsigned rest = static_cast<unsigned>(linear);
    for (int d = 0; d < k_max_rank; ++d) {
      tile.at[d] = static_cast<int>(rest % static_cast<unsigned>(grid.extent[d]));
      rest /= static_cast<unsigned>(grid.extent[d]);
    }
    return tile;
  }
  for (int d = 0; d < k_max_rank; ++d) {
    tile.at[d] = static_cast<int>(linear % grid.extent[d]);
    linear /= grid.extent[d];
  }
  return tile;
}

/// A half-open box of tiles, begin[d] <= coordinate < end[d]. Unused dimensions are [0, 1).
struct TileBox {
  int begin[k_max_rank] = {0, 0, 0, 0};
  int end[k_max_rank] = {1, 1, 1, 1};

  TESSERA_HOST_DEVICE constexpr bool empty() const {
    for (int d = 0; d < k_max_rank; ++d)
      if (begin[d] >= end[d]) return true;
    return false;
  }
};

/// A range of tile coordinates cut to [0, extent), whatever 64-bit numbers it comes from. Both results
/// are inside [0, extent], and an empty range stays empty.
struct CutRange {
  int begin;
  int end;
};
TESSERA_HOST_DEVICE constexpr CutRange cut(long long begin, long long end, int extent) {
  if (begin < 0) begin = 0;
  if (end > extent) end = extent;
  if (begin >= end) return {0, 0};
  return {static_cast<int>(begin), static_cast<int>(end)};
}

/// A range of 64-bit coordinates, half open.
struct LongRange {
  long long begin = 0;
  long long end = 1;
};

/// The box of the ranges, cut to a grid.
TESSERA_HOST_DEVICE constexpr TileBox cut_box(TileGrid const& grid, LongRange x, LongRange y = {0, 1},
                                              LongRange z = {0, 1}, LongRange w = {0, 1}) {
  LongRange const ranges[k_max_rank] = {x, y, z, w};
  TileBox box;
  for (int d = 0; d < k_max_rank; ++d) {
    CutRange const range = cut(ranges[d].begin, ranges[d].end, grid.extent[d]);
    box.begin[d] = range.begin;
    box.end[d] = range.end;
  }
  return box;
}

/// Division and modulo that round towards minus infinity; divisor > 0.
TESSERA_HOST_DEVICE constexpr long long floor_divide(long long a, long long divisor) {
  return a / divisor - (a % divisor < 0 ? 1 : 0);
}
TESSERA_HOST_DEVICE constexpr long long floor_modulo(long long a, long long divisor) {
  long long const rest = a % divisor;
  return rest < 0 ? rest + divisor : rest;
}
TESSERA_HOST_DEVICE constexpr long long smaller(long long a, long long b) { return a < b ? a : b; }
TESSERA_HOST_DEVICE constexpr long long larger(long long a, long long b) { return a < b ? b : a; }

}  // namespace tessera
