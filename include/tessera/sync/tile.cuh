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
  for (int d = 0; d < k_max_rank; ++d) {
    tile.at[d] = static_cast<int>(linear % grid.extent[d]);
    linear /= grid.extent[d];
  }
  return tile;
}

}  // namespace tessera
