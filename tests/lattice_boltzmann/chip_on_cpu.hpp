// SPDX-License-Identifier: Apache-2.0
// Blocks that keep their cells, on the CPU, by the kernel's own functions and tables.
#pragma once

#include <gmock/gmock.h>

#include <set>
#include <vector>

#include "kernels/lattice_boltzmann/chip_cell.hpp"
#include "kernels/lattice_boltzmann/on_chip.hpp"

namespace tessera::lattice_boltzmann {

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
    memory_.assign(tables_.blocks.size() * k_memory, 1e30f);
    // As the kernel does: distances between memories in place of ranks.
    int const of = cut.cluster_blocks();
    for (int b = 0; b < blocks(); ++b)
      for (auto& row : tables_.blocks[static_cast<std::size_t>(b)].reach)
        for (int i = 0; i < k_directions; ++i)
          if (int const rank = rank_of(row.bytes[i]); rank >= 0)
            row.bytes[i] = bytes_of(row.bytes[i]) + static_cast<int>(4 * k_memory) * (rank - b % of);
  }

  /// In the order of the launch.
  int blocks() const { return static_cast<int>(tables_.blocks.size()); }
  ChipConstants const& block(int b) const { return tables_.blocks[static_cast<std::size_t>(b)]; }

  std::vector<float> run(std::vector<float> const& start, int steps) {
    for (int step = 0; step <= steps; ++step) {
      for (int b = 0; b < blocks(); ++b) compute(b, start, step, steps);
      for (int b = 0; b < blocks(); ++b) take(b, step, steps);
    }
    return result(start);
  }
  /// A block's step up to where others may see it: step 0 brings its cells in.
  void compute(int number, std::vector<float> const& start, int step, int steps) {
    auto const b = static_cast<std::size_t>(number), cells = static_cast<std::size_t>(problem_.size());
    for_each_cell(b, (steps - step) % 2 == 1,
                  [&](float* cell, std::size_t in_box, auto const& places, unsigned lids) {
                    if (step > 0) return step_chip_cell(cell, places, lids, of_);
                    float f[k_directions];
                    for (std::size_t i = 0; i < k_directions; ++i) f[i] = start[i * cells + in_box];
                    scatter(cell, places, f);
                  });
    if (step < steps) show_all(b, step);
  }
  /// The end of the step, behind what others have shown of it.
  void take(int number, int step, int steps) {
    if (step < steps) take_all(static_cast<std::size_t>(number), step);
  }
  /// Has all that a block takes of a step been shown?
  bool is_shown(int number, int step) const {
    auto const& of = block(number);
    for (int t = 0; t < of.taken; ++t)
      if (shown_
              .at(static_cast<std::size_t>(step % 2 * cut_.shown()) +
                  tables_.takes[static_cast<std::size_t>(of.takes + t)].from)
              .written != step)
        return false;
    return true;
  }
  std::vector<float> result(std::vector<float> like) {
    auto const cells = static_cast<std::size_t>(problem_.size());
    for (int b = 0; b < blocks(); ++b)
      for_each_cell(static_cast<std::size_t>(b), false,
                    [&](float* cell, std::size_t in_box, auto const& places, unsigned) {
                      for (int i = 0; i < k_directions; ++i)
                        like[static_cast<std::size_t>(i) * cells + in_box] = places.of(cell, opposite(i));
                    });
    return like;
  }

 private:
  /// As the kernel does: the rim, what is beside walls, the inside.
  template <class Visit>
  void for_each_cell(std::size_t b, bool reaches, Visit const& visit) {
    auto const& block = tables_.blocks[b];
    ChipStrides const strides{block.row, block.plane};
    auto* const cells = memory_of(b);
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
      if (reaches && k / 32 >= block.plain_tasks && k / 32 < block.linked_tasks) {
        auto const beside = tables_.beside_walls.empty() ? OwnPlaces{} : tables_.beside_walls.at(at);
        visit(cells + n, in_box(n), ClusterPlaces{&block.reach[entry >> k_row_shift], beside.own},
              beside.lids);
      } else if (k / 32 >= block.plain_tasks && !tables_.beside_walls.empty()) {
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
        to.words[k] = word(memory_of(b) + (one.cell & k_cell_bytes) / 4, block.leave[one.cell >> 16], k);
    }
  }
  void take_all(std::size_t b, int step) {
    auto const& block = tables_.blocks[b];
    std::set<float*> places;
    for (int t = 0; t < block.taken; ++t) {
      auto const one = tables_.takes[static_cast<std::size_t>(block.takes + t)];
      auto const& from = shown_.at(static_cast<std::size_t>(step % 2 * cut_.shown()) + one.from);
      EXPECT_EQ(from.written, step);
      auto* const cell = memory_of(b) + (static_cast<int>(one.cell & k_cell_bytes) - k_taken_offset) / 4;
      for (std::size_t k = 0; k < k_words; ++k)
        if ((one.cell >> (16 + k) & 1) != 0) {
          auto& to = word(cell, block.land[one.cell >> 24], k);
          ASSERT_GE(&to, memory_of(b));
          ASSERT_LE(&to, memory_of(b) + k_memory - 1);
          to = from.words[k];
          places.insert(&to);
        }
    }
    // Each population that comes from another cluster, and not from a wall, has been given once at least.
    std::size_t wanted = 0;
    ChipBlock const whole(cut_, tables_.blocks[b].number);
    auto const links = links_of(problem_);
    for (int n = 0; n < whole.cells(); ++n) {
      int at[3] = {};
      whole.place(n, at);
      auto const in_box = static_cast<std::size_t>(
          whole.first[0] + at[0] +
          problem_.width * (whole.first[1] + at[1] + problem_.height * (whole.first[2] + at[2])));
      Links const link = links.empty() ? Links{} : links[in_box];
      if ((link.walls & k_solid) != 0) continue;
      for (int i = 1; i < k_directions; ++i) {
        int from[3] = {};
        bool crosses = false;
        for (int a = 0; a < 3; ++a) {
          int const there = at[a] - velocity_along(a, i);
          int const over = there < 0 ? -1 : there >= whole.size[a] ? 1 : 0;
          from[a] = whole.own[a] + over, crosses = crosses || over != 0;
        }
        if (crosses && (link.walls >> i & 1) == 0 && cut_.rank_beside(whole.own, from) < 0) ++wanted;
      }
    }
    EXPECT_EQ(places.size(), wanted);
  }

  static constexpr std::size_t k_memory = k_directions * k_slot;
  float* memory_of(std::size_t b) { return memory_.data() + b * k_memory; }

  Problem problem_;
  ChipCut cut_;
  ChipTables tables_;
  Relaxation<float> of_ = relaxation_of<float>(problem_);
  std::vector<float> memory_;  ///< of all blocks, one behind the other
  std::vector<Shown> shown_;
};

}  // namespace tessera::lattice_boltzmann
