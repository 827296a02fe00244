// SPDX-License-Identifier: Apache-2.0
// Descriptions of two stages of so many tiles where tile i of one waits for tile i of the other: for tests
// and benchmarks that play post against wait. The first is also awaited back: `there` posts set 0, `back`
// set 1.
#pragma once

#include "tessera/sync.cuh"

namespace tessera::gpu {

template <int Tiles, int First>
struct PairSet {
  using Policy = TileSync;
  TESSERA_HOST_DEVICE static constexpr TileGrid grid() { return {1, {Tiles, 1, 1, 1}}; }
  static constexpr int splits = 1;
  static constexpr long long first = First * Tiles;
  static constexpr long long count = Tiles;
};

/// Tile i reads `Reads` tiles from number i on.
template <int Tiles, int First, int Reads>
struct PairDependence {
  using Set = PairSet<Tiles, First>;
  static constexpr int accesses = 1;
  TESSERA_HOST_DEVICE static constexpr TileBox box(int, Tile const& tile) {
    return cut_box(Set::grid(), {tile.at[0], tile.at[0] + Reads});
  }
};

/// Stage `Index` posts to its own set and waits for the other's.
template <int Tiles, int Index, bool PlainStore = false, Start How = Start::worker, int Reads = 1>
struct PairStage {
  static constexpr int index = Index;
  TESSERA_HOST_DEVICE static constexpr TileGrid grid() { return {1, {Tiles, 1, 1, 1}}; }
  static constexpr int splits = 1;
  static constexpr int threads = 256;
  using Order = RowMajor;
  static constexpr Start start = How;
  static constexpr bool custom_order = true;
  static constexpr bool wait_kernel = false;
  static constexpr bool reorder_loads = false;
  static constexpr bool plain_store = PlainStore;
  static constexpr bool triggers_at_start = false;
  static constexpr bool completes_after_previous = false;
  static constexpr bool announces_start = false;
  using Operands = tessera::Operands<After<PairDependence<Tiles, 1 - Index, Reads>>>;
  using Posts = Sets<PairSet<Tiles, Index>>;
  using BeforeStore = Sets<>;
};

}  // namespace tessera::gpu
