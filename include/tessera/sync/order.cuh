// SPDX-License-Identifier: Apache-2.0
// Tile orders as types: position in the processing order -> linear tile.
#pragma once

#include "table.cuh"
#include "tile.cuh"

namespace tessera {

/// Position p is tile p: x fastest, as CUDA numbers blocks.
struct RowMajor {
  TESSERA_HOST_DEVICE static constexpr long long tile_at(long long position) { return position; }
};

/// One digit of a position in a mixed-radix number, and what it adds to the linear tile.
template <long long Radix, long long Weight>
struct Digit {
  static_assert(Radix >= 1, "Digit<Radix, Weight>: a digit has at least one value");
  static constexpr long long radix = Radix;
  static constexpr long long weight = Weight;
};

/// An order in closed form: the position's digits, fastest first, each times its weight. Column-major
/// orders, block swizzles and strided interleaving are of this kind: on a 6x4 grid,
/// DigitOrder<Digit<4, 6>, Digit<6, 1>> goes down the columns.
template <class... Digits>
struct DigitOrder {
  TESSERA_HOST_DEVICE static constexpr long long tile_at(long long position) {
    long long tile = 0;
    ((tile += position % Digits::radix * Digits::weight, position /= Digits::radix), ...);
    return tile;
  }
};

/// An order by table: `Source::table()` is an IntTable with the linear tile of every position.
template <class Source>
struct TableOrder {
  TESSERA_HOST_DEVICE static constexpr long long tile_at(long long position) {
    return table_at<Source>(position);
  }
};

namespace detail {

template <class Order>
TESSERA_HOST_DEVICE constexpr auto has_tile_at(int)
    -> decltype(static_cast<long long>(Order::tile_at(0LL)), true) {
  return true;
}
template <class Order>
TESSERA_HOST_DEVICE constexpr bool has_tile_at(long) {
  return false;
}

}  // namespace detail

/// Holds a user-written order to what the library calls.
template <class Order>
struct RequireOrder {
  static_assert(
      detail::has_tile_at<Order>(0),
      "A tile order must provide static tile_at(long long position); it returns the linear tile that "
      "is processed at that position, and is a permutation of the grid's tiles. See docs/sync.md.");
  static constexpr bool met = true;
};

}  // namespace tessera
