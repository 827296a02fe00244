// SPDX-License-Identifier: Apache-2.0
// Which tiles of a grid lie in at least one of millions of boxes.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/describe/tile_relation.hpp"

namespace tessera::check_detail {

/// Adding a box costs its corners only (2^rank), whatever its size; 4 bytes for each tile of the grid.
class Coverage {
 public:
  explicit Coverage(TileGrid const& grid)
      : grid_(grid), differences_(static_cast<std::size_t>(grid.tiles()), 0) {}

  /// Precondition: the box lies inside the grid and is not empty; fewer than 2^32 boxes in all.
  void add(TileRelation::Box const& box);

  /// Number of boxes over each tile, by linear tile. Call once; leaves the object empty.
  std::vector<std::uint32_t> take_counts();

 private:
  TileGrid grid_;
  std::vector<std::uint32_t> differences_;
};

}  // namespace tessera::check_detail
