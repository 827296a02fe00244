// SPDX-License-Identifier: Apache-2.0
// Blocks that keep their cells, one after the other on the CPU, by the kernel's own functions: every word is
// written and read once a step, and the result has the bits of the plain steps.
#include <gmock/gmock.h>

#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "kernels/lattice_boltzmann/chip_cell.hpp"
#include "kernels/lattice_boltzmann/reference.hpp"
#include "lattice_boltzmann/rough.hpp"

namespace tessera::lattice_boltzmann {
namespace {

/// What is shown of a cell, the step that wrote it, and how often it was taken.
struct Shown {
  float words[k_words] = {};
  bool bounces[k_words] = {};
  int written = -1;
};

class Chip {
 public:
  Chip(Problem const& problem, ChipCut const& cut)
      : problem_(problem), cut_(cut), links_(links_of(problem)), of_(relaxation_of<float>(problem)) {
    shown_.resize(2 * static_cast<std::size_t>(cut.shown()));
    for (int b = 0; b < cut.count(); ++b) {
      blocks_.emplace_back().set(cut, b, k_slot);
      memory_.emplace_back(k_directions * k_slot, 1e30f);
    }
  }

  std::vector<float> run(std::vector<float> const& start, int steps) {
    auto const cells = static_cast<std::size_t>(problem_.size());
    auto result = start;
    for (int step = 0; step <= steps; ++step) {
      bool const reaches = (steps - step) % 2 == 1, shows = step < steps;
      for (std::size_t b = 0; b < blocks_.size(); ++b)
        for_each_cell(b, [&](int n, std::size_t in_box, Links const& link) {
          float f[k_directions];
          if (step == 0)
            for (std::size_t i = 0; i < k_directions; ++i) f[i] = start[i * cells + in_box];
          compute(b, n, link, step, reaches, shows, f);
        });
      if (shows)
        for (std::size_t b = 0; b < blocks_.size(); ++b) take_all(b, step);
    }
    for (std::size_t b = 0; b < blocks_.size(); ++b)
      for_each_cell(b, [&](int n, std::size_t in_box, Links const& link) {
        for (int i = 0; i < k_directions && (link.walls & k_solid) == 0; ++i)
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
      visit(n, in_box, link);
    }
  }
  ChipStrides strides(std::size_t b) const {
    return {blocks_[b].pitch, blocks_[b].pitch * blocks_[b].size[1]};
  }

  void compute(std::size_t b, int n, Links const& link, int step, bool reaches, bool shows,
               float (&f)[k_directions]) {
    RimCell cell;
    cell.set(blocks_[b], n, 0);
    float* const at = memory_[b].data() + n;
    bool const solid = (link.walls & k_solid) != 0;
    if (step > 0 && cell.sides == 0 && link.walls == 0)
      return reaches ? step_inside<true>(at, strides(b), of_) : step_inside<false>(at, strides(b), of_);
    unsigned const own = own_places(reaches, cell.crossing, link.walls);
    if (step > 0 && !solid) {
      gather(at, strides(b), own, link.lids, of_, f);
      collide(f, of_);
    }
    if (!solid) scatter(at, strides(b), own, f);
    if (shows) show<0>(b, cell, link, step, f);
  }
  template <int Side>
  void show(std::size_t b, RimCell const& cell, Links const& link, int step, float const (&f)[k_directions]) {
    if constexpr (Side < k_sides) {
      if ((cell.sides >> Side & 1) != 0) {
        auto& to = shown_.at(static_cast<std::size_t>(step % 2 * cut_.shown() + blocks_[b].written[Side] +
                                                      cell.at[axis_u(Side)] +
                                                      cut_.box[axis_u(Side)] * cell.at[axis_v(Side)]));
        EXPECT_TRUE(to.written < 0 || to.written == step - 2) << "written again before its time";
        to.written = step;
        for (int k = 0; k < k_words; ++k) {
          int const i = leaving(Side, k);
          to.words[k] = f[i];
          to.bounces[k] = (link.walls & k_solid) != 0 || (link.walls >> opposite(i) & 1) != 0;
        }
      }
      show<Side + 1>(b, cell, link, step, f);
    }
  }
  void take_all(std::size_t b, int step) {
    std::set<int> places;
    int taken = 0;
    for (auto const& side : blocks_[b].side) taken += side.taken;
    EXPECT_LE(taken, cut_.most_taken());
    for (auto const& side : blocks_[b].side)
      for (int t = 0; t < side.taken; ++t) {
        int u = 0, v = 0;
        side.at(t, u, v);
        auto const& from = shown_.at(static_cast<std::size_t>(step % 2 * cut_.shown() + side.shown(u, v)));
        EXPECT_EQ(from.written, step);
        for (int k = 0; k < k_words; ++k)
          if (side.hits(u, v, k)) {
            int const place = side.cell + u * side.along_u + v * side.along_v + side.place[k];
            places.insert(place);
            if (!from.bounces[k]) memory_[b].at(static_cast<std::size_t>(place)) = from.words[k];
          }
      }
    // Each population that comes from elsewhere has been given once at least.
    std::size_t wanted = 0;
    for (int k = 0; k < blocks_[b].rim(); ++k) {
      RimCell cell;
      cell.set(blocks_[b], blocks_[b].in_order(k), 0);
      wanted += static_cast<std::size_t>(__builtin_popcount(cell.crossing));
    }
    EXPECT_EQ(places.size(), wanted);
  }

  Problem problem_;
  ChipCut cut_;
  std::vector<Links> links_;
  Relaxation<float> of_;
  std::vector<ChipBlock> blocks_;
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
    block.set(cut, b, k_slot);
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
