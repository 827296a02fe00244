// SPDX-License-Identifier: Apache-2.0
// A policy maps every producer tile to one semaphore and says which count means ready
// (cuSync, section III-D). A policy is a product of one map per grid dimension; the well-known ones
// (TileSync, RowSync, StridedSync, ...) are particular products.
#pragma once

#include "tile.cuh"

namespace tessera {

/// How one dimension's coordinate c (extent e) contributes to the semaphore index.
enum class Grouping : int {
  each,    ///< c: a semaphore for each coordinate
  all,     ///< 0: all coordinates share one
  block,   ///< c / width: runs of `width` neighbours share one (the last run may be shorter)
  stride,  ///< c % width: coordinates at distance `width` share one
};

struct DimensionMap {
  Grouping grouping = Grouping::each;
  int width = 1;  ///< for block and stride; ignored otherwise

  /// Number of distinct indices for an extent e >= 1.
  TESSERA_HOST_DEVICE constexpr int count(int e) const {
    switch (grouping) {
      case Grouping::each: return e;
      case Grouping::all: return 1;
      case Grouping::block: return (e - 1) / width + 1;
      case Grouping::stride: return width < e ? width : e;
    }
    return 0;
  }
  TESSERA_HOST_DEVICE constexpr int index(int c) const {
    switch (grouping) {
      case Grouping::each: return c;
      case Grouping::all: return 0;
      case Grouping::block: return c / width;
      case Grouping::stride: return c % width;
    }
    return 0;
  }
  /// Number of coordinates that map to index i, 0 <= i < count(e).
  TESSERA_HOST_DEVICE constexpr int members(int e, int i) const {
    switch (grouping) {
      case Grouping::each: return 1;
      case Grouping::all: return e;
      case Grouping::block: {
        int const left = e - i * width;
        return left < width ? left : width;
      }
      case Grouping::stride: return (e - i - 1) / width + 1;
    }
    return 0;
  }
  /// Number of distinct indices of the coordinates [begin, end), begin < end.
  TESSERA_HOST_DEVICE constexpr int count_in(int begin, int end) const {
    switch (grouping) {
      case Grouping::each: return end - begin;
      case Grouping::all: return 1;
      case Grouping::block: return (end - 1) / width - begin / width + 1;
      case Grouping::stride: return end - begin < width ? end - begin : width;
    }
    return 0;
  }
  /// The i-th of them, 0 <= i < count_in(begin, end), in the order of first appearance.
  TESSERA_HOST_DEVICE constexpr int index_in(int begin, int i) const {
    switch (grouping) {
      case Grouping::each: return begin + i;
      case Grouping::all: return 0;
      case Grouping::block: return begin / width + i;
      case Grouping::stride: return (begin + i) % width;
    }
    return 0;
  }
};

/// The table-free form of a policy over one producer grid. Trivially copyable, 32 bytes, usable on
/// host and device.
struct SemaphoreMap {
  DimensionMap dimension[k_max_rank] = {};

  /// Number of semaphores for the grid.
  TESSERA_HOST_DEVICE constexpr long long count(TileGrid const& grid) const {
    long long n = 1;
    for (int d = 0; d < k_max_rank; ++d) n *= dimension[d].count(grid.extent[d]);
    return n;
  }
  /// Semaphore of a producer tile, 0 <= result < count(grid).
  TESSERA_HOST_DEVICE constexpr long long semaphore_of(TileGrid const& grid, Tile const& tile) const {
    long long index = 0;
    for (int d = k_max_rank - 1; d >= 0; --d)
      index = index * dimension[d].count(grid.extent[d]) + dimension[d].index(tile.at[d]);
    return index;
  }
  /// Number of producer tiles that post to a semaphore. The value that means ready is
  /// tiles_of(...) * splits, once per launch (epoch).
  TESSERA_HOST_DEVICE constexpr long long tiles_of(TileGrid const& grid, long long semaphore) const {
    // Nearly all grids: 32-bit arithmetic, which takes a GPU a fraction of the time.
    if (grid.tiles() <= 0x7fffffff) {
      auto rest = static_cast<unsigned>(semaphore);
      int n = 1;
      for (int d = 0; d < k_max_rank; ++d) {
        auto const counts = static_cast<unsigned>(dimension[d].count(grid.extent[d]));
        n *= dimension[d].members(grid.extent[d], static_cast<int>(rest % counts));
        rest /= counts;
      }
      return n;
    }
    long long n = 1;
    for (int d = 0; d < k_max_rank; ++d) {
      int const counts = dimension[d].count(grid.extent[d]);
      n *= dimension[d].members(grid.extent[d], static_cast<int>(semaphore % counts));
      semaphore /= counts;
    }
    return n;
  }
};

}  // namespace tessera
