// SPDX-License-Identifier: Apache-2.0
// What each block on the chip looks up in place of computing it: in which order its cells go, where a cell of
// its rim reads and writes, what it shows and what it takes. Made once, on the host.
#pragma once

#include <vector>

#include "kernels/lattice_boltzmann/chip_block.hpp"
#include "kernels/lattice_boltzmann/problem.hpp"

namespace tessera::lattice_boltzmann {

/// Cells that a block has room for: words between the places of two directions.
constexpr int k_slot = 2960;
/// Of those the cells with others of the block all around, at most: 12x12x13 of 14x14x15. Tasks of 32 cells.
constexpr int k_most_inside = 1888;

/// A cell of the rim, or beside a wall: its number in the block; in front of it which row of `reach` it has.
constexpr unsigned k_number = 0x0FFF, k_row_shift = 12, k_no_cell = ~0u;
constexpr std::uint16_t k_none_inside = 0xFFFF;

/// Where a cell's populations come from in a step that reaches out, in bytes from the cell on. Those that
/// cross into the block come from the cell's own places; those of a block of the same cluster from that
/// block's (place_in()).
struct alignas(16) ReachRow {
  int bytes[20];
};
/// A place in the memory of a block of the cluster: bytes from the same place there, and its rank.
constexpr int k_rank_shift = 20;
constexpr int place_in(int rank, int bytes) { return bytes + ((rank + 1) << k_rank_shift); }
/// -1: the own block.
TESSERA_HOST_DEVICE constexpr int rank_of(int place) {
  return ((place + (1 << (k_rank_shift - 1))) >> k_rank_shift) - 1;
}
TESSERA_HOST_DEVICE constexpr int bytes_of(int place) {
  return place - (rank_of(place) + 1) * (1 << k_rank_shift);
}

/// For each axis: at its lower end, between, at its upper end. A block of one cell has no more than the
/// first.
constexpr int k_reach_rows = 27;
/// The words of a cell that go through a side, in bytes from the cell on.
struct alignas(16) SideWords {
  int bytes[8];
};

/// What a cell shows through one side, in packets 2 * `to` and the next one.
struct Shows {
  unsigned to;
  unsigned cell;  ///< in bytes from the block's first; from bit 16 on the side
};
/// What comes from a cell behind a side.
struct Taken {
  unsigned from;
  /// Of the cell in front of it: in bytes from k_taken_offset before the block's first; from bit 16 on which
  /// words go to a cell of this block; from bit 24 on the side.
  unsigned cell;
};
constexpr int k_taken_offset = 4 * 4096;
constexpr unsigned k_cell_bytes = 0xFFFF;

/// What is beside a cell near a wall: populations that come through its own places, from walls or blocks of
/// other clusters, and those that lids add to.
struct OwnPlaces {
  unsigned own, lids;
};

struct alignas(16) ChipConstants {
  int first[3], size[3];  ///< cells of the box
  int row, plane;         ///< from cell to cell along y and z, in places
  /// First entry; tasks of 32 cells: those without a wall beside them or a block of the same cluster; behind
  /// them those with such a block; all.
  int rim, plain_tasks, linked_tasks, rim_tasks;
  int inside, inside_tasks;
  int shows, shown;  ///< first entry, and how many
  int takes, taken;
  int neighbours[27];  ///< numbers of the blocks around this one, itself among them
  int number;          ///< of this one; launches have their own order (ChipCut::launched())
  int partners, partner[k_cluster_blocks - 1];  ///< ranks of the blocks around it in its cluster
  SideWords leave[k_sides], land[k_sides];
  ReachRow reach[k_reach_rows];
};
static_assert(sizeof(ChipConstants) % 16 == 0, "");

/// Of all blocks, one behind the other, as they are launched.
struct ChipTables {
  std::vector<ChipConstants> blocks;
  std::vector<unsigned> rim;            ///< tasks of 32
  std::vector<OwnPlaces> beside_walls;  ///< for each entry of the rim; empty: no walls
  std::vector<std::uint16_t> inside;    ///< tasks of 32
  std::vector<Shows> shows;
  std::vector<Taken> takes;
};

/// In an order in which 32 cells that go together lie in different banks of shared memory, as far as that is
/// possible; filled up with -1.
std::vector<int> in_order_of_banks(std::vector<int> cells);

/// Gives a block's rows and planes the distances, with room on an SM, by which warps that go along its sides
/// wait least for banks of shared memory.
void spread_over_banks(ChipBlock& block);

/// For a cut that check_cut() has passed. All blocks of a cut in clusters have the same distances between
/// rows and planes, by which a cell knows a place in another block. `links`: of each cell of the box; empty:
/// no walls.
ChipTables chip_tables(ChipCut const& cut, std::vector<Links> const& links);

}  // namespace tessera::lattice_boltzmann
