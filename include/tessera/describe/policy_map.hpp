// SPDX-License-Identifier: Apache-2.0
// Which semaphore each tile of a producer posts to: a product of one map for each dimension of its grid, or a
// table of tiles, which any map can be written as.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "../sync/policy.cuh"

namespace tessera {

/// The base is the product; a table takes its place.
struct PolicyMap : SemaphoreMap {
  std::vector<std::int32_t>
      table;  ///< semaphore of each linear tile, from 0 up without gaps; empty: the product
  std::vector<std::int32_t> members;  ///< of a table: tiles of each semaphore, as table_map() counts them

  PolicyMap() = default;
  PolicyMap(SemaphoreMap const& product) : SemaphoreMap(product) {}  // NOLINT: a product is a map

  bool is_table() const { return !table.empty(); }

  /// As SemaphoreMap's, for the grid that the map was made for.
  long long count(TileGrid const& grid) const {
    return is_table() ? static_cast<long long>(members.size()) : SemaphoreMap::count(grid);
  }
  long long semaphore_of(TileGrid const& grid, Tile const& tile) const {
    return is_table() ? table[static_cast<std::size_t>(linear_of(grid, tile))]
                      : SemaphoreMap::semaphore_of(grid, tile);
  }
  long long tiles_of(TileGrid const& grid, long long semaphore) const {
    return is_table() ? members[static_cast<std::size_t>(semaphore)]
                      : SemaphoreMap::tiles_of(grid, semaphore);
  }

  bool operator==(PolicyMap const& other) const;
};

/// A map by table, its members counted. What makes a table unusable is check()'s business.
PolicyMap table_map(std::vector<std::int32_t> semaphores);

/// Any map that a function computes: `semaphore_of(tile)`, from 0 up without gaps.
PolicyMap table_map(TileGrid const& grid, std::function<long long(Tile const&)> const& semaphore_of);

/// Why a map cannot be used on a grid, as a sentence; empty: it can. A table of another length, with a
/// negative number or a semaphore that no tile has; a width below 1.
std::string problem_of(PolicyMap const& map, TileGrid const& grid);

/// A map that was asked for by name.
struct NamedPolicy {
  std::string name;  ///< a word for people; empty: called by what it is
  PolicyMap map;

  bool operator==(NamedPolicy const&) const = default;
};

// The usual ones, for DependenceHandle::policy().

/// A semaphore for each tile (TileSync).
NamedPolicy each_tile();
/// So many neighbouring rows, along dimension 1, share one (RowSync; BatchedRowSync from two rows on).
NamedPolicy rows(int together = 1);
/// Tiles of a row at this distance share one (StridedSync).
NamedPolicy strided(int tiles);
/// One semaphore for the whole grid (GridSync).
NamedPolicy whole_grid();
/// One map for each dimension, the first dimension first; dimensions that are not given have a semaphore for
/// each tile.
NamedPolicy product(std::vector<DimensionMap> const& dimensions, std::string name = {});

}  // namespace tessera
