// SPDX-License-Identifier: Apache-2.0
// Blocks that keep their cells, one after the other on the CPU, by the kernel's own functions: every word is
// written and read once a step, and the result has the bits of the plain steps.
#include <gmock/gmock.h>

#include <cstring>
#include <map>
#include <vector>

#include "kernels/lattice_boltzmann/chip_cell.hpp"
#include "kernels/lattice_boltzmann/reference.hpp"
#include "lattice_boltzmann/rough.hpp"

namespace tessera::lattice_boltzmann {
namespace {

/// A word, and the step that wrote it.
struct Word {
  float value = 0;
  int written = -1;
};

class Chip {
 public:
  Chip(Problem const& problem, ChipCut const& cut)
      : problem_(problem), cut_(cut), links_(links_of(problem)), of_(relaxation_of<float>(problem)) {
    words_.resize(2 * static_cast<std::size_t>(cut.words()));
    for (int b = 0; b < cut.count(); ++b) {
      blocks_.emplace_back().set(cut, b);
      memory_.emplace_back(k_directions * k_slot, 1e30f);
    }
  }

  std::vector<float> run(std::vector<float> const& start, int steps) {
    auto const cells = static_cast<std::size_t>(problem_.size());
    for (std::size_t b = 0; b < blocks_.size(); ++b)
      for_each_cell(b, [&](int n, std::size_t in_box, Links const& link) {
        float f[k_directions];
        for (std::size_t i = 0; i < k_directions; ++i) f[i] = start[i * cells + in_box];
        steps % 2 == 0 ? leave<false>(b, n, link, 0, true, f) : leave<true>(b, n, link, 0, true, f);
      });
    for (int step = 1; step <= steps; ++step)
      for (std::size_t b = 0; b < blocks_.size(); ++b)
        for_each_cell(b, [&](int n, std::size_t, Links const& link) {
          (steps - step) % 2 == 1 ? compute<true>(b, n, link, step, step < steps)
                                  : compute<false>(b, n, link, step, step < steps);
        });
    auto result = start;
    for (std::size_t b = 0; b < blocks_.size(); ++b)
      for_each_cell(b, [&](int n, std::size_t in_box, Links const&) {
        for (int i = 0; i < k_directions; ++i)
          result[static_cast<std::size_t>(i) * cells + in_box] =
              memory_[b][static_cast<std::size_t>(opposite(i) * k_slot + n)];
      });
    return result;
  }

 private:
  template <class Visit>
  void for_each_cell(std::size_t b, Visit const& visit) {
    auto const& block = blocks_[b];
    for (int k = 0; k < block.cells(); ++k) {
      int const n = block.in_order(k);
      int at[3];
      block.place(n, at);
      ASSERT_EQ(block.number_of(at[0], at[1], at[2]), n);
      auto const in_box = static_cast<std::size_t>(
          block.first[0] + at[0] +
          1LL * problem_.width * (block.first[1] + at[1] + 1LL * problem_.height * (block.first[2] + at[2])));
      Links const link = links_.empty() ? Links{} : links_[in_box];
      if ((link.walls & k_solid) == 0) visit(n, in_box, link);
    }
  }
  ChipStrides strides(std::size_t b) const {
    return {blocks_[b].pitch, blocks_[b].pitch * blocks_[b].size[1]};
  }

  template <bool Reaches>
  void leave(std::size_t b, int n, Links const& link, int step, bool sends, float const (&f)[k_directions]) {
    RimCell cell;
    cell.set(blocks_[b], n, link.walls);
    scatter<Reaches>(memory_[b].data() + n, strides(b), cell.crossing | link.walls, f);
    if (!sends) return;
    visit_crossings(cut_, blocks_[b], cell, [&](int i, int, int outgoing) {
      auto& word = words_.at(static_cast<std::size_t>(step % 2 * cut_.words() + outgoing));
      EXPECT_TRUE(word.written < 0 || word.written == step - 2) << "written again before its time";
      word = {f[opposite(i)], step};
    });
  }
  template <bool Reaches>
  void compute(std::size_t b, int n, Links const& link, int step, bool sends) {
    RimCell cell;
    cell.set(blocks_[b], n, link.walls);
    if (cell.sides == 0 && link.walls == 0)
      return step_inside<Reaches>(memory_[b].data() + n, strides(b), of_);
    float f[k_directions];
    gather<Reaches>(memory_[b].data() + n, strides(b), cell.crossing | link.walls, link.lids, of_, f);
    int found = 0;
    visit_crossings(cut_, blocks_[b], cell, [&](int i, int incoming, int) {
      auto const& word = words_.at(static_cast<std::size_t>((step - 1) % 2 * cut_.words() + incoming));
      EXPECT_EQ(word.written, step - 1) << "direction " << i;
      f[i] = word.value, ++found;
    });
    EXPECT_EQ(found, __builtin_popcount(cell.crossing));
    collide(f, of_);
    leave<Reaches>(b, n, link, step, sends, f);
  }

  Problem problem_;
  ChipCut cut_;
  std::vector<Links> links_;
  Relaxation<float> of_;
  std::vector<ChipBlock> blocks_;
  std::vector<std::vector<float>> memory_;
  std::vector<Word> words_;
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
    for (bool const odd : {false, true}) {
      cut.odd_pitch = odd;
      Reference<float> plain(problem);
      Chip chip(problem, cut);
      auto const found = chip.run(plain.populations(), one.steps);
      for (int step = 0; step < one.steps; ++step) plain.step();
      ASSERT_EQ(std::memcmp(found.data(), plain.populations().data(), found.size() * sizeof(float)), 0);
    }
  }
}

TEST(LatticeBoltzmannChip, EveryCellIsComputedOnceAndTheRimFirst) {
  ChipCut cut{{17, 9, 5}, {3, 4, 2}, true};
  for (int b = 0; b < cut.count(); ++b) {
    ChipBlock block;
    block.set(cut, b);
    std::map<int, int> seen;
    for (int k = 0; k < block.cells(); ++k) {
      int const n = block.in_order(k);
      ++seen[n];
      RimCell cell;
      cell.set(block, n, 0);
      EXPECT_EQ(cell.sides != 0, k < block.rim()) << k;
    }
    EXPECT_EQ(static_cast<int>(seen.size()), block.cells());
  }
}

TEST(LatticeBoltzmannChip, SmallDivisionsAreExact) {
  for (int divisor : {1, 2, 3, 7, 12, 13, 14, 15, 16, 17, 31, 2960, 4095})
    for (int n = 0; n < 32768; ++n)
      ASSERT_EQ(SmallDivision::by(divisor)(n), n / divisor) << n << " " << divisor;
}

}  // namespace
}  // namespace tessera::lattice_boltzmann
