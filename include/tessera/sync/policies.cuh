// SPDX-License-Identifier: Apache-2.0
// Policies as types: the named ones, products of dimension maps, tables, and what a user-written one
// must provide.
#pragma once

#include "policy.cuh"
#include "table.cuh"

namespace tessera {

/// How one dimension is grouped, as a type. See DimensionMap.
struct Each {
  TESSERA_HOST_DEVICE static constexpr DimensionMap map() { return {Grouping::each, 1}; }
};
struct All {
  TESSERA_HOST_DEVICE static constexpr DimensionMap map() { return {Grouping::all, 1}; }
};
template <int Width>
struct Block {
  static_assert(Width >= 1, "Block<Width>: a block has at least one coordinate");
  TESSERA_HOST_DEVICE static constexpr DimensionMap map() { return {Grouping::block, Width}; }
};
template <int Distance>
struct Stride {
  static_assert(Distance >= 1, "Stride<Distance>: the distance is at least one coordinate");
  TESSERA_HOST_DEVICE static constexpr DimensionMap map() { return {Grouping::stride, Distance}; }
};

/// A policy that is one map for each dimension, x first.
template <class X, class Y = Each, class Z = Each, class W = Each>
struct ProductPolicy {
  TESSERA_HOST_DEVICE static constexpr SemaphoreMap map() {
    return SemaphoreMap{{X::map(), Y::map(), Z::map(), W::map()}};
  }
  TESSERA_HOST_DEVICE constexpr long long count(TileGrid const& grid) const { return map().count(grid); }
  TESSERA_HOST_DEVICE constexpr long long semaphore_of(TileGrid const& grid, Tile const& tile) const {
    return map().semaphore_of(grid, tile);
  }
  TESSERA_HOST_DEVICE constexpr long long tiles_of(TileGrid const& grid, long long semaphore) const {
    return map().tiles_of(grid, semaphore);
  }
};

/// A semaphore for every tile: most overlap, most waits.
using TileSync = ProductPolicy<Each>;
/// All tiles of a row (along x) share one: fewest waits where a consumer reads whole rows.
using RowSync = ProductPolicy<All>;
/// Tiles of a row at distance `Tiles` share one: the Q, K and V tiles of a head in a fused QKV output.
template <int Tiles>
using StridedSync = ProductPolicy<Stride<Tiles>>;
/// For implicit GEMM convolutions: a semaphore for every tile of the producer's output. The consumer's
/// slices divide by the filter size (its slice k reads producer column k / (R * S)), so the division is in
/// the dependence and not in the policy.
using Conv2DTileSync = TileSync;
/// `Rows` neighbouring rows share one.
template <int Rows>
using BatchedRowSync = ProductPolicy<All, Block<Rows>>;
/// One semaphore for the whole grid (for buffer reuse).
using GridSync = ProductPolicy<All, All, All, All>;

namespace detail {

template <class Source>
TESSERA_HOST_DEVICE constexpr int semaphores_in_table() {
  auto const tiles = Source::table();
  int result = 1;
  for (int i = 0; i < tiles.size; ++i)
    if (tiles.values[i] >= result) result = tiles.values[i] + 1;
  return result;
}

// How many tiles have each semaphore, as a table of its own.
template <class Source>
struct TableMembers {
  static constexpr int semaphores = semaphores_in_table<Source>();
  TESSERA_HOST_DEVICE static constexpr IntTable<semaphores> table() {
    IntTable<semaphores> members{};
    auto const tiles = Source::table();
    for (int i = 0; i < tiles.size; ++i) ++members.values[tiles.values[i]];
    return members;
  }
};

}  // namespace detail

/// A policy by table: `Source::table()[linear tile]` is the semaphore, from 0 up without gaps. How many
/// tiles share one is counted by the compiler.
template <class Source>
struct TablePolicy {
  TESSERA_HOST_DEVICE constexpr long long count(TileGrid const&) const {
    return detail::TableMembers<Source>::semaphores;
  }
  TESSERA_HOST_DEVICE constexpr long long semaphore_of(TileGrid const& grid, Tile const& tile) const {
    return table_at<Source>(linear_of(grid, tile));
  }
  TESSERA_HOST_DEVICE constexpr long long tiles_of(TileGrid const&, long long semaphore) const {
    return table_at<detail::TableMembers<Source>>(semaphore);
  }
};

namespace detail {

template <class T>
TESSERA_HOST_DEVICE T made();
template <class Policy>
TESSERA_HOST_DEVICE constexpr auto has_semaphore_of(int)
    -> decltype(static_cast<long long>(made<Policy const>().semaphore_of(made<TileGrid>(), made<Tile>())),
                true) {
  return true;
}
template <class Policy>
TESSERA_HOST_DEVICE constexpr bool has_semaphore_of(long) {
  return false;
}
template <class Policy>
TESSERA_HOST_DEVICE constexpr auto has_tiles_of(int)
    -> decltype(static_cast<long long>(made<Policy const>().tiles_of(made<TileGrid>(), 0LL)), true) {
  return true;
}
template <class Policy>
TESSERA_HOST_DEVICE constexpr bool has_tiles_of(long) {
  return false;
}
template <class Policy>
TESSERA_HOST_DEVICE constexpr auto has_map(int) -> decltype(SemaphoreMap(Policy::map()), true) {
  return true;
}
template <class Policy>
TESSERA_HOST_DEVICE constexpr bool has_map(long) {
  return false;
}
template <class Policy>
TESSERA_HOST_DEVICE constexpr auto has_count(int)
    -> decltype(static_cast<long long>(made<Policy const>().count(made<TileGrid>())), true) {
  return true;
}
template <class Policy>
TESSERA_HOST_DEVICE constexpr bool has_count(long) {
  return false;
}

}  // namespace detail

/// Holds a user-written policy to what the library calls, with a sentence for each missing member.
template <class Policy>
struct RequirePolicy {
  static_assert(detail::has_semaphore_of<Policy>(0),
                "A sync policy must provide semaphore_of(TileGrid, Tile); it returns the index of the "
                "semaphore that the producer tile posts to, from 0 to count(grid) - 1. See docs/sync.md.");
  static_assert(detail::has_tiles_of<Policy>(0),
                "A sync policy must provide tiles_of(TileGrid, long long semaphore); it returns how many "
                "producer tiles post to the semaphore. See docs/sync.md.");
  static_assert(detail::has_count<Policy>(0),
                "A sync policy must provide count(TileGrid); it returns the number of semaphores for the "
                "grid. See docs/sync.md.");
  static constexpr bool met = true;
};

}  // namespace tessera
