// SPDX-License-Identifier: Apache-2.0
// Slabs of ranks on the CPU, by the kernel's own functions, blocks in any order that their waits allow: the
// bits of the plain steps.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <set>

#include "kernels/lattice_boltzmann/reference.hpp"
#include "kernels/lattice_boltzmann/slab_problem.hpp"
#include "lattice_boltzmann/rough.hpp"
#include "support/assert_ok.hpp"

namespace tessera::lattice_boltzmann {
namespace {

constexpr unsigned k_threads = 32;

/// A rank's memory, and how far it is.
struct Rank {
  RowRange planes;
  BoxArguments box;
  std::vector<unsigned char> kinds;
  std::vector<Links> links;
  std::vector<float> lattices[2];
  SlabWords words;
  int neighbours[k_ends] = {};
  int step = 0;
  std::vector<unsigned> order;  ///< blocks of the step, those that are left
};

class Slabs {
 public:
  Slabs(Problem const& problem, int ranks, unsigned seed)
      : problem_(problem),
        of_(relaxation_of<float>(problem)),
        ranks_(static_cast<std::size_t>(ranks)),
        random_(seed) {
    auto const links = links_of(problem);
    bool const periodic = problem.faces[4] == Face::periodic;
    for (int r = 0; r < ranks; ++r) {
      auto& one = at(r);
      one.planes = planes_of(problem.depth, ranks, r);
      one.box = slab_box(problem.width, problem.height, one.planes.rows());
      one.links = of_slab(problem, one.planes, links);
      for (auto const& link : one.links) one.kinds.push_back(kind_of(link));
      if (!one.links.empty()) one.box.kinds = one.kinds.data(), one.box.links = one.links.data();
      for (int end = 0; end < k_ends; ++end) one.neighbours[end] = neighbour_of(ranks, r, end, periodic);
      for (auto& lattice : one.lattices) lattice.assign(k_directions * std::size_t{one.box.cells}, 1e30f);
    }
  }

  /// `ignore`: an end of rank 0 whose word is not waited for.
  std::vector<float> run(std::vector<float> const& start, int steps, int ignore = -1) {
    auto const cells = static_cast<std::size_t>(problem_.size());
    for (auto& one : ranks_)
      for (std::size_t i = 0; i < k_directions; ++i) {
        std::vector<float> const of_box(start.begin() + static_cast<long>(i * cells),
                                        start.begin() + static_cast<long>((i + 1) * cells));
        auto const all = of_slab(problem_, one.planes, of_box);
        for (auto& lattice : one.lattices)
          std::copy(all.begin(), all.end(), lattice.begin() + static_cast<long>(i * one.box.cells));
      }
    while (true) {
      std::vector<int> ready;
      for (int r = 0; r < static_cast<int>(ranks_.size()); ++r)
        if (at(r).step < steps && can_go_on(r, ignore)) ready.push_back(r);
      if (ready.empty()) break;
      do_block(ready[random_() % ready.size()]);
    }
    auto result = start;
    for (auto& one : ranks_) {
      EXPECT_EQ(one.step, steps) << "nobody could go on";
      auto const plane = static_cast<std::size_t>(cells_of_plane(one.box));
      for (std::size_t i = 0; i < k_directions; ++i)
        std::memcpy(&result[i * cells + plane * static_cast<std::size_t>(one.planes.begin)],
                    &one.lattices[steps % 2][i * one.box.cells + plane],
                    4 * plane * static_cast<std::size_t>(one.planes.rows()));
    }
    return result;
  }
  int most_ahead() const { return most_ahead_; }

 private:
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  SlabPart next_part(Rank& one) {
    if (one.order.empty()) {
      one.order.resize(blocks_of_slab(one.box, k_threads));
      std::iota(one.order.begin(), one.order.end(), 0u);
      std::shuffle(one.order.begin(), one.order.end(), random_);
    }
    return part_of(one.box, k_threads, one.order.back());
  }
  bool can_go_on(int rank, int ignore) {
    auto& one = at(rank);
    auto const part = next_part(one);
    for (int end = 0; end < k_ends; ++end) {
      if ((part.ends >> end & 1) == 0 || one.neighbours[end] < 0 || (rank == 0 && end == ignore)) continue;
      if (one.words.told[end] < steps_of(one.words.arrived[end], blocks_of_end(one.box, k_threads)))
        return false;
    }
    return true;
  }
  void do_block(int rank) {
    auto& one = at(rank);
    auto const part = next_part(one);
    SlabWay ways[k_ends];
    for (int end = 0; end < k_ends; ++end) {
      if (one.neighbours[end] < 0) continue;
      auto& peer = at(one.neighbours[end]);
      most_ahead_ = std::max(most_ahead_, one.step - peer.step);
      ways[end] = {peer.lattices[(one.step + 1) % 2].data(), peer.box.cells,
                   end == 0 ? cells_of_plane(peer.box) * static_cast<unsigned>(peer.box.depth - 1) : 0};
    }
    for (unsigned n = part.first; n < part.first + part.count; ++n)
      step_slab_cell(one.box, n, part.ends, one.lattices[one.step % 2].data(),
                     one.lattices[(one.step + 1) % 2].data(), ways, of_);
    unsigned const blocks = blocks_of_end(one.box, k_threads);
    for (int end = 0; end < k_ends; ++end) {
      if ((part.ends >> end & 1) == 0 || one.neighbours[end] < 0) continue;
      if (++one.words.arrived[end] % blocks == 0)
        at(one.neighbours[end]).words.told[other_end(end)] = steps_of(one.words.arrived[end], blocks);
    }
    one.order.pop_back();
    if (one.order.empty()) ++one.step;
  }

  Problem problem_;
  Relaxation<float> of_;
  std::vector<Rank> ranks_;
  std::mt19937 random_;
  int most_ahead_ = 0;
};

Problem closed(Problem problem) {
  problem.faces[4] = problem.faces[5] = Face::wall;
  return problem;
}

std::vector<float> after(Problem const& problem, int steps) {
  Reference<float> plain(problem);
  for (int step = 0; step < steps; ++step) plain.step();
  return plain.populations();
}
bool equal(std::vector<float> const& a, std::vector<float> const& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}

TEST(LatticeBoltzmannSlabs, ComputeWhatPlainStepsDoInAnyOrder) {
  struct Case {
    Problem problem;
    int ranks;
  };
  auto open = rough(6, 7, 8);
  open.cells.clear(), open.faces = {};
  bool was_ahead = false;
  for (auto const& [problem, ranks] :
       {Case{rough(9, 8, 10), 2}, Case{closed(rough(9, 8, 11)), 2}, Case{open, 2}, Case{rough(5, 7, 9), 1},
        Case{closed(rough(11, 6, 7)), 3}, Case{rough(7, 5, 4), 4}, Case{rough(3, 5, 2), 2},
        Case{rough(17, 9, 1), 1}, Case{open, 8}, Case{rough(40, 3, 5), 4}}) {
    SCOPED_TRACE(testing::Message() << to_string(problem) << " by " << ranks);
    auto const wanted = after(problem, 7);
    for (unsigned seed = 0; seed < 6; ++seed) {
      Slabs slabs(problem, ranks, seed);
      ASSERT_TRUE(equal(slabs.run(after(problem, 0), 7), wanted)) << "seed " << seed;
      was_ahead = was_ahead || slabs.most_ahead() > 0;
    }
  }
  EXPECT_TRUE(was_ahead) << "no rank was ever ahead of a neighbour: orders that prove little";
}

/// Else the test above would prove nothing.
TEST(LatticeBoltzmannSlabs, WithoutWaitsNumbersAreWrong) {
  auto const problem = rough(9, 8, 10);
  auto const wanted = after(problem, 7);
  int wrong = 0;
  for (unsigned seed = 0; seed < 10; ++seed)
    wrong += equal(Slabs(problem, 2, seed).run(after(problem, 0), 7, 0), wanted) ? 0 : 1;
  EXPECT_GT(wrong, 5);
}

TEST(LatticeBoltzmannSlabs, BlocksHaveEachCellOnceAndEndsFirst) {
  for (int const planes : {1, 2, 3, 7})
    for (int const width : {1, 5, 32, 33}) {
      auto const box = slab_box(width, 3, planes);
      std::set<unsigned> seen;
      unsigned at_ends[k_ends] = {};
      bool inside = false;
      for (unsigned block = 0; block < blocks_of_slab(box, k_threads); ++block) {
        auto const part = part_of(box, k_threads, block);
        ASSERT_GT(part.count, 0u);
        inside = inside || part.ends == 0;
        EXPECT_FALSE(inside && part.ends != 0) << "an end behind the inside";
        for (unsigned n = part.first; n < part.first + part.count; ++n) {
          EXPECT_TRUE(seen.insert(n).second) << n;
          unsigned const z = n / cells_of_plane(box);
          EXPECT_EQ((part.ends & 1) != 0, z == 1);
          EXPECT_EQ((part.ends & 2) != 0, z == static_cast<unsigned>(planes));
        }
        for (int end = 0; end < k_ends; ++end) at_ends[end] += part.ends >> end & 1;
      }
      EXPECT_EQ(seen.size(), cells_of_plane(box) * static_cast<unsigned>(planes));
      for (int end = 0; end < k_ends; ++end) EXPECT_EQ(at_ends[end], blocks_of_end(box, k_threads));
    }
}

TEST(LatticeBoltzmannSlabs, PlanesAreSharedEvenly) {
  for (int const depth : {1, 5, 16, 1024, 4096})
    for (int ranks = 1; ranks <= std::min(depth, 16); ++ranks) {
      int before = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        auto const planes = planes_of(depth, ranks, rank);
        EXPECT_EQ(planes.begin, before);
        EXPECT_GE(planes.rows(), depth / ranks);
        EXPECT_LE(planes.rows(), depth / ranks + 1);
        before = planes.end;
      }
      EXPECT_EQ(before, depth);
    }
}

TEST(LatticeBoltzmannSlabs, WhatDoesNotFitIsRefused) {
  Problem const problem{64, 64, 4};
  ASSERT_OK(check_slabs(problem, 4, 1LL << 30));
  auto const thin = check_slabs(problem, 5, 1LL << 30);
  ASSERT_FALSE(thin);
  EXPECT_THAT(to_text(thin.error()), testing::HasSubstr("E0569: 4 planes along z for 5 GPUs"));
  auto const large = check_slabs({512, 512, 1024}, 2, 8LL << 30);
  ASSERT_FALSE(large);
  EXPECT_THAT(to_text(large.error()),
              testing::HasSubstr("19.07 GiB of memory on each of 2 GPUs, and 8.00 GiB are free"));
  ASSERT_OK(check_slabs({512, 512, 1024}, 2, 20LL << 30));
  EXPECT_EQ(check_slabs({512, 512, 1024}, 1, 30LL << 30).error().front().code, "E0569");
}

}  // namespace
}  // namespace tessera::lattice_boltzmann
