// SPDX-License-Identifier: Apache-2.0
// Blocks that keep their cells, one after the other on the CPU, by the kernel's own functions: every word is
// written and read once a step, and the result has the bits of the plain steps.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <vector>

#include "kernels/lattice_boltzmann/chip_cell.hpp"
#include "kernels/lattice_boltzmann/on_chip.hpp"
#include "kernels/lattice_boltzmann/reference.hpp"
#include "lattice_boltzmann/chip_on_cpu.hpp"
#include "lattice_boltzmann/rough.hpp"

namespace tessera::lattice_boltzmann {
namespace {

TEST(LatticeBoltzmannChip, BlocksComputeWhatPlainStepsDo) {
  struct Case {
    int box[3], blocks[3], steps;
    bool walls;
  };
  for (auto const& one : {Case{{12, 12, 12}, {2, 2, 2}, 5, false}, Case{{13, 11, 9}, {3, 2, 2}, 4, true},
                          Case{{7, 5, 3}, {1, 1, 1}, 3, false}, Case{{5, 4, 6}, {5, 4, 3}, 6, true},
                          Case{{10, 1, 3}, {3, 1, 2}, 7, false}, Case{{2, 9, 8}, {1, 3, 1}, 1, true},
                          Case{{6, 7, 8}, {2, 3, 4}, 8, true}}) {
    SCOPED_TRACE(testing::Message() << one.box[0] << "x" << one.box[1] << "x" << one.box[2] << ", "
                                    << one.steps << " steps");
    auto problem = rough(one.box[0], one.box[1], one.box[2]);
    if (!one.walls) problem.cells.clear(), problem.faces = {};
    ChipCut cut;
    for (int a = 0; a < 3; ++a) cut.box[a] = one.box[a], cut.blocks[a] = one.blocks[a];
    Reference<float> plain(problem);
    Chip chip(problem, cut);
    auto const found = chip.run(plain.populations(), one.steps);
    for (int step = 0; step < one.steps; ++step) plain.step();
    ASSERT_EQ(std::memcmp(found.data(), plain.populations().data(), found.size() * sizeof(float)), 0);
  }
}

TEST(LatticeBoltzmannChip, EveryCellIsComputedOnceAndTheRimFirst) {
  ChipCut const cut{{17, 9, 5}, {3, 4, 2}};
  auto const tables = chip_tables(cut, {});
  for (int b = 0; b < cut.count(); ++b) {
    ChipBlock block(cut, b);
    auto const& made = tables.blocks[static_cast<std::size_t>(b)];
    block.lay_out(made.row, made.plane);
    std::set<unsigned> seen;
    for (int k = 0; k < 32 * made.rim_tasks; ++k)
      if (auto const entry = tables.rim[static_cast<std::size_t>(made.rim + k)]; entry != k_no_cell) {
        EXPECT_NE(block.sides_of(static_cast<int>(entry & k_number)), 0u);
        EXPECT_TRUE(seen.insert(entry & k_number).second);
      }
    EXPECT_EQ(static_cast<int>(seen.size()), block.rim());
    for (int k = 0; k < 32 * made.inside_tasks; ++k)
      if (auto const n = tables.inside[static_cast<std::size_t>(made.inside + k)]; n != k_none_inside) {
        EXPECT_TRUE(seen.insert(n).second);
      }
    EXPECT_EQ(static_cast<int>(seen.size()), block.cells());
  }
}

TEST(LatticeBoltzmannChip, CellsOfATaskLieInDifferentBanks) {
  auto const tables = chip_tables({{56, 42, 165}, {4, 3, 11}}, {});
  for (auto const& block : tables.blocks) {
    ASSERT_LE(32 * block.inside_tasks, k_most_inside);
    int meet = 0;
    for (int task = 0; task < block.inside_tasks; ++task) {
      std::set<int> banks;
      int cells = 0;
      for (int lane = 0; lane < 32; ++lane)
        if (int const n = tables.inside[static_cast<std::size_t>(block.inside + 32 * task + lane)];
            n != k_none_inside)
          ++cells, banks.insert(n % 32);
      meet += cells - static_cast<int>(banks.size());
    }
    EXPECT_LT(meet, 1872 / 50);
  }
  // Where all lie in one bank, each has a place all the same.
  std::vector<int> one_bank(70);
  for (std::size_t k = 0; k < one_bank.size(); ++k) one_bank[k] = 32 * static_cast<int>(k) + 5;
  auto order = in_order_of_banks(one_bank);
  EXPECT_EQ(order.size(), 96u);
  std::sort(order.begin(), order.end());
  order.erase(order.begin(), order.begin() + 26);
  EXPECT_EQ(order, one_bank);
}

/// Cycles that a warp's word takes in shared memory: different words of the same bank come one after the
/// other.
int cycles(std::vector<int> const& places) {
  std::array<std::set<int>, 32> banks;
  std::size_t most = 0;
  for (int const place : places) {
    auto& bank = banks[static_cast<std::size_t>(place % 32)];
    bank.insert(place);
    most = std::max(most, bank.size());
  }
  return static_cast<int>(most);
}

/// Blocks 12, 14 and 16 cells wide, whose rows lie in few banks if nothing is between them: at 16x16x8 a step
/// then took 8 cycles for each 32 words, and 5 more microseconds.
TEST(LatticeBoltzmannChip, WarpsHardlyMeetInABankWhateverTheBlocksEdges) {
  for (auto const& cut : {ChipCut{{48, 36, 132}, {4, 3, 11}}, ChipCut{{56, 42, 165}, {4, 3, 11}},
                          ChipCut{{64, 64, 64}, {4, 4, 8}}}) {
    SCOPED_TRACE(testing::Message() << cut.box[0] << "x" << cut.box[1] << "x" << cut.box[2]);
    auto const tables = chip_tables(cut, {});
    auto const& block = tables.blocks[0];
    int rim = 0, inside = 0, shown = 0, taken = 0;
    for (int task = 0; task < block.rim_tasks; ++task)
      for (std::size_t i = 0; i < k_directions; ++i) {
        std::vector<int> places;
        for (int lane = 0; lane < 32; ++lane)
          if (auto const entry = tables.rim[static_cast<std::size_t>(block.rim + 32 * task + lane)];
              entry != k_no_cell)
            places.push_back(static_cast<int>(entry & k_number) +
                             block.reach[entry >> k_row_shift].bytes[i] / 4);
        rim += cycles(places);
      }
    for (int task = 0; task < block.inside_tasks; ++task) {
      auto const* const first = &tables.inside[static_cast<std::size_t>(block.inside + 32 * task)];
      std::vector<int> places(first, first + 32);
      places.erase(std::remove(places.begin(), places.end(), k_none_inside), places.end());
      inside += cycles(places);
    }
    for (int t = 0; t < block.shown; t += 32) {
      std::vector<int> places;
      for (int k = t; k < std::min(t + 32, block.shown); ++k)
        places.push_back(
            static_cast<int>(tables.shows[static_cast<std::size_t>(block.shows + k)].cell & k_cell_bytes) /
            4);
      shown += cycles(places);
    }
    for (int t = 0; t < block.taken; t += 32) {
      std::vector<int> places;
      for (int k = t; k < std::min(t + 32, block.taken); ++k)
        places.push_back(
            static_cast<int>(tables.takes[static_cast<std::size_t>(block.takes + k)].cell & k_cell_bytes) /
            4);
      taken += cycles(places);
    }
    EXPECT_LT(rim, block.rim_tasks * k_directions * 1.6);
    EXPECT_LT(inside, block.inside_tasks * 1.1);
    EXPECT_LT(shown, (block.shown + 31) / 32 * 2.2);
    EXPECT_LT(taken, (block.taken + 31) / 32 * 2.2);
  }
}

/// The order of the inside has a place in shared memory, whatever the block's shape.
TEST(LatticeBoltzmannChip, TheInsideOfAnyBlockHasRoom) {
  for (int x = 1; x <= k_chip_cells; ++x)
    for (int y = 1; x * y <= k_chip_cells; ++y) {
      int const z = k_chip_cells / (x * y);
      int const inside = std::max(0, x - 2) * std::max(0, y - 2) * std::max(0, z - 2);
      ASSERT_LE((inside + 31) / 32 * 32, k_most_inside) << x << "x" << y << "x" << z;
    }
}

}  // namespace
}  // namespace tessera::lattice_boltzmann
