// SPDX-License-Identifier: Apache-2.0
// expect: A sync policy must provide semaphore_of(TileGrid, Tile)
#include "tessera/sync.cuh"

struct Policy {
  TESSERA_HOST_DEVICE constexpr long long count(tessera::TileGrid const& grid) const { return grid.tiles(); }
#if !defined(BAD)
  TESSERA_HOST_DEVICE constexpr long long semaphore_of(tessera::TileGrid const& grid,
                                                       tessera::Tile const& tile) const {
    return tessera::linear_of(grid, tile);
  }
#endif
  TESSERA_HOST_DEVICE constexpr long long tiles_of(tessera::TileGrid const&, long long) const { return 1; }
};
static_assert(tessera::RequirePolicy<Policy>::met, "");
