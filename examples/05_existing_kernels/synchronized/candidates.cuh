// SPDX-License-Identifier: Apache-2.0
// The ways to order the chain, in the words of a generated header (chain.cuh is one): each dependence with a
// mechanism of its own, so that the fastest can be found by measuring. The kernels are the same in all of
// them.
#pragma once

#include <type_traits>

#include "tessera/sync.cuh"

namespace candidates {

/// How a kernel follows the one before.
enum class Edge {
  stream_order,
  late,         ///< programmatic launch when the blocks before have left: hides the launch
  early,        ///< programmatic launch when the blocks before have begun; waits for all of them
  tiles,        ///< the same; waits for the tiles that it reads
  wait_kernel,  ///< on a stream of its own, behind a wait kernel; waits for the tiles that it reads
};
constexpr bool waits_for_tiles(Edge edge) { return edge == Edge::tiles || edge == Edge::wait_kernel; }
constexpr bool is_programmatic(Edge edge) { return edge != Edge::stream_order && edge != Edge::wait_kernel; }

constexpr int k_tile = 64;

/// The chain for so many rows. A row of tiles shares a semaphore, in both dependences.
template <int Rows, Edge Second, Edge Third, bool Tickets>
struct Chain {
  static constexpr int high = Rows / k_tile;
  static constexpr int wide = 16;
  static constexpr Edge edges[] = {Edge::stream_order, Second, Third, Edge::stream_order};
  static constexpr long long semaphores = 2 * high;
  static constexpr long long counters = tessera::counters_for(3);
  TESSERA_HOST_DEVICE static constexpr tessera::TileGrid grid_of(int stage) {
    if (stage == 2) return {1, {Rows, 1, 1, 1}};
    return {2, {wide, high, 1, 1}};
  }

  template <int Producer>
  struct Set {
    using Policy = tessera::RowSync;
    TESSERA_HOST_DEVICE static constexpr tessera::TileGrid grid() { return grid_of(Producer); }
    static constexpr int splits = 1;
    static constexpr long long first = Producer * high;
    static constexpr long long count = high;
  };
  template <int Consumer>
  struct Reads {
    using Set = std::conditional_t<
        waits_for_tiles(edges[Consumer]), Chain::Set<Consumer - 1>,
        std::conditional_t<is_programmatic(edges[Consumer]), tessera::WholeGrid, tessera::NoSet>>;
    static constexpr int accesses = 1;
    TESSERA_HOST_DEVICE static constexpr tessera::TileBox box(int, tessera::Tile const& tile) {
      long long const row = Consumer == 2 ? tile.at[0] / k_tile : tile.at[1];
      return tessera::cut_box(grid_of(Consumer - 1), {0, wide}, {row, row + 1});
    }
  };

  template <int Index>
  struct Stage {
    static constexpr Edge before = edges[Index], after = edges[Index + 1];
    static constexpr int index = Index;
    TESSERA_HOST_DEVICE static constexpr tessera::TileGrid grid() { return grid_of(Index); }
    static constexpr int splits = 1;
    using Order = tessera::RowMajor;
    static constexpr tessera::Start start = Tickets ? tessera::Start::ticket : tessera::Start::block_index;
    static constexpr bool custom_order = Tickets;
    static constexpr bool reorder_loads = false;
    static constexpr bool plain_store = false;
    static constexpr bool wait_kernel = before == Edge::wait_kernel;
    static constexpr bool triggers_at_start = after == Edge::early || after == Edge::tiles;
    static constexpr bool completes_after_previous = is_programmatic(before);
    static constexpr bool announces_start = after == Edge::wait_kernel;
    using Operands = std::conditional_t<before == Edge::stream_order, tessera::Operands<>,
                                        tessera::Operands<tessera::After<Reads<Index == 0 ? 1 : Index>>>>;
    using Posts = std::conditional_t<waits_for_tiles(after), tessera::Sets<Set<Index>>, tessera::Sets<>>;
    using BeforeStore = tessera::Sets<>;
  };
};

}  // namespace candidates
