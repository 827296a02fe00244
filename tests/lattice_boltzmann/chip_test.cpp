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
#include "lattice_boltzmann/rough.hpp"

namespace tessera::lattice_boltzmann {
namespace {

/// What is shown of a cell, and the step that wrote it.
struct Shown {
  float words[k_words] = {};
  int written = -1;
};

class Chip {
 public:
  Chip(Problem const& problem, ChipCut const& cut)
      : problem_(problem), cut_(cut), tables_(chip_tables(cut, links_of(problem))) {
    shown_.resize(2 * static_cast<std::size_t>(cut.shown()));
    memory_.assign(tables_.blocks.size(), std::vector<float>(k_directions * k_slot, 1e30f));
  }

  std::vector<float> run(std::vector<float> const& start, int steps) {
    auto const cells = static_cast<std::size_t>(problem_.size());
    auto result = start;
    for (int step = 0; step <= steps; ++step) {
      bool const reaches = (steps - step) % 2 == 1, shows = step < steps;
      for (std::size_t b = 0; b < memory_.size(); ++b) {
        for_each_cell(b, reaches, [&](float* cell, std::size_t in_box, auto const& places, unsigned lids) {
          if (step > 0) return step_chip_cell(cell, places, lids, of_);
          float f[k_directions];
          for (std::size_t i = 0; i < k_directions; ++i) f[i] = start[i * cells + in_box];
          scatter(cell, places, f);
        });
        if (shows) show_all(b, step);
      }
      for (std::size_t b = 0; b < memory_.size() && shows; ++b) take_all(b, step);
    }
    for (std::size_t b = 0; b < memory_.size(); ++b)
      for_each_cell(b, false, [&](float* cell, std::size_t in_box, auto const& places, unsigned) {
        for (int i = 0; i < k_directions; ++i)
          result[static_cast<std::size_t>(i) * cells + in_box] = places.of(cell, opposite(i));
      });
    return result;
  }

 private:
  /// As the kernel does: the rim, what is beside walls, the inside.
  template <class Visit>
  void for_each_cell(std::size_t b, bool reaches, Visit const& visit) {
    auto const& block = tables_.blocks[b];
    ChipStrides const strides{block.row, block.plane};
    auto* const cells = memory_[b].data();
    auto const in_box = [&](int n) {
      int const in_plane = n % block.plane;
      return static_cast<std::size_t>(block.first[0] + in_plane % block.row) +
             static_cast<std::size_t>(problem_.width) *
                 static_cast<std::size_t>(block.first[1] + in_plane / block.row +
                                          problem_.height * (block.first[2] + n / block.plane));
    };
    for (int k = 0; k < 32 * block.rim_tasks; ++k) {
      auto const at = static_cast<std::size_t>(block.rim + k);
      unsigned const entry = tables_.rim[at];
      if (entry == k_no_cell) continue;
      int const n = static_cast<int>(entry & k_number);
      if (k / 32 >= block.plain_tasks) {
        auto const beside = tables_.beside_walls.at(at);
        visit(cells + n, in_box(n), AnyPlaces{strides, reaches ? beside.own : ~0u}, beside.lids);
      } else if (reaches) {
        visit(cells + n, in_box(n), RimPlaces{block.reach[entry >> k_row_shift]}, 0u);
      } else {
        visit(cells + n, in_box(n), LocalPlaces{}, 0u);
      }
    }
    for (int k = 0; k < 32 * block.inside_tasks; ++k) {
      auto const n = tables_.inside[static_cast<std::size_t>(block.inside + k)];
      if (n == k_none_inside) continue;
      if (reaches)
        visit(cells + n, in_box(n), ReachedPlaces{strides}, 0u);
      else
        visit(cells + n, in_box(n), LocalPlaces{}, 0u);
    }
  }
  static float& word(float* cell, SideWords const& words, std::size_t k) {
    return *(cell + words.bytes[k] / 4);
  }
  void show_all(std::size_t b, int step) {
    auto const& block = tables_.blocks[b];
    for (int t = 0; t < block.shown; ++t) {
      auto const one = tables_.shows[static_cast<std::size_t>(block.shows + t)];
      auto& to = shown_.at(static_cast<std::size_t>(step % 2 * cut_.shown()) + one.to);
      EXPECT_TRUE(to.written < 0 || to.written == step - 2) << "written again before its time";
      to.written = step;
      for (std::size_t k = 0; k < k_words; ++k)
        to.words[k] = word(memory_[b].data() + (one.cell & k_cell_bytes) / 4, block.leave[one.cell >> 16], k);
    }
  }
  void take_all(std::size_t b, int step) {
    auto const& block = tables_.blocks[b];
    std::set<float*> places;
    for (int t = 0; t < block.taken; ++t) {
      auto const one = tables_.takes[static_cast<std::size_t>(block.takes + t)];
      auto const& from = shown_.at(static_cast<std::size_t>(step % 2 * cut_.shown()) + one.from);
      EXPECT_EQ(from.written, step);
      auto* const cell = memory_[b].data() + (static_cast<int>(one.cell & k_cell_bytes) - k_taken_offset) / 4;
      for (std::size_t k = 0; k < k_words; ++k)
        if ((one.cell >> (16 + k) & 1) != 0) {
          auto& to = word(cell, block.land[one.cell >> 24], k);
          ASSERT_GE(&to, memory_[b].data());
          ASSERT_LE(&to, &memory_[b].back());
          to = from.words[k];
          places.insert(&to);
        }
    }
    // Each population that comes from elsewhere, and not from a wall, has been given once at least.
    std::size_t wanted = 0;
    ChipBlock const whole(cut_, static_cast<int>(b));
    auto const links = links_of(problem_);
    for (int n = 0; n < whole.cells(); ++n) {
      int at[3] = {};
      whole.place(n, at);
      auto const in_box = static_cast<std::size_t>(
          whole.first[0] + at[0] +
          problem_.width * (whole.first[1] + at[1] + problem_.height * (whole.first[2] + at[2])));
      Links const link = links.empty() ? Links{} : links[in_box];
      if ((link.walls & k_solid) == 0)
        wanted += static_cast<std::size_t>(__builtin_popcount(entering_any(whole.sides_of(n)) & ~link.walls));
    }
    EXPECT_EQ(places.size(), wanted);
  }

  Problem problem_;
  ChipCut cut_;
  ChipTables tables_;
  Relaxation<float> of_ = relaxation_of<float>(problem_);
  std::vector<std::vector<float>> memory_;
  std::vector<Shown> shown_;
};

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
