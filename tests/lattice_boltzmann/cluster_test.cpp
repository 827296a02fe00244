// SPDX-License-Identifier: Apache-2.0
// Blocks in clusters, whose cells reach into each other's memory: on the CPU by the kernel's own functions,
// in any order that its waits allow. What they cost, and what is refused.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <tessera/measure/machine_json.hpp>

#include "kernels/lattice_boltzmann/cluster_cut.hpp"
#include "kernels/lattice_boltzmann/reference.hpp"
#include "kernels/lattice_boltzmann/step_choice.hpp"
#include "kernels/lattice_boltzmann/step_simulation.hpp"
#include "lattice_boltzmann/chip_on_cpu.hpp"
#include "lattice_boltzmann/rough.hpp"
#include "support/assert_ok.hpp"
#include "support/cases.hpp"

namespace tessera::lattice_boltzmann::cluster_test {
namespace {

struct Case {
  int box[3], blocks[3], cluster[3], steps;
  bool walls;

  ChipCut cut() const {
    ChipCut cut;
    for (int a = 0; a < 3; ++a) cut.box[a] = box[a], cut.blocks[a] = blocks[a], cut.cluster[a] = cluster[a];
    return cut;
  }
  Problem problem() const {
    auto problem = rough(box[0], box[1], box[2]);
    if (!walls) problem.cells.clear(), problem.faces = {};
    return problem;
  }
};

/// One cluster, several, blocks of one cell, axes of one block, clusters that meet themselves around the box.
Case const k_cases[] = {
    {{12, 12, 12}, {2, 2, 2}, {2, 2, 2}, 5, false}, {{13, 11, 9}, {4, 2, 3}, {2, 2, 1}, 4, true},
    {{7, 5, 3}, {2, 1, 1}, {2, 1, 1}, 3, true},     {{5, 4, 6}, {2, 4, 3}, {2, 4, 1}, 6, true},
    {{4, 1, 3}, {4, 1, 1}, {4, 1, 1}, 7, false},    {{10, 9, 8}, {4, 3, 2}, {1, 1, 2}, 4, false},
    {{11, 7, 6}, {4, 2, 1}, {4, 2, 1}, 5, true},    {{9, 8, 7}, {3, 4, 1}, {3, 2, 1}, 8, true}};

std::vector<float> plain_steps(Problem const& problem, int steps) {
  Reference<float> plain(problem);
  for (int step = 0; step < steps; ++step) plain.step();
  return plain.populations();
}
bool same_bits(std::vector<float> const& a, std::vector<float> const& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(LatticeBoltzmannCluster, BlocksComputeWhatPlainStepsDo) {
  for (auto const& one : k_cases) {
    auto const problem = one.problem();
    SCOPED_TRACE(to_string(problem));
    ASSERT_OK(check_cut(problem, one.cut()));
    Chip chip(problem, one.cut());
    auto const start = plain_steps(problem, 0);
    ASSERT_TRUE(same_bits(chip.run(start, one.steps), plain_steps(problem, one.steps)));
  }
}

/// Blocks that are drawn at random, each as far as its waits allow: for words that are shown, and for its
/// neighbours in the cluster (`waits`).
std::vector<float> in_any_order(Case const& one, unsigned seed, bool waits) {
  auto const problem = one.problem();
  Chip chip(problem, one.cut());
  auto const start = plain_steps(problem, 0);
  auto const of = one.cut().cluster_blocks();
  std::vector<int> computed(static_cast<std::size_t>(chip.blocks()), -1), ended = computed;
  std::mt19937 random(seed);
  auto const is_over = [&] {
    return std::all_of(ended.begin(), ended.end(), [&](int step) { return step == one.steps; });
  };
  while (!is_over()) {
    int const b = static_cast<int>(random() % computed.size());
    auto &has = computed[static_cast<std::size_t>(b)], &end = ended[static_cast<std::size_t>(b)];
    if (end == one.steps) continue;
    if (has == end) {
      chip.compute(b, start, ++has, one.steps);
      if (has == one.steps) end = has;
      continue;
    }
    auto const& block = chip.block(b);
    bool there = chip.is_shown(b, has);
    for (int p = 0; p < block.partners && waits; ++p)
      there = there && computed[static_cast<std::size_t>(b - b % of + block.partner[p])] >= has;
    if (!there) continue;
    chip.take(b, has, one.steps);
    end = has;
  }
  return chip.result(start);
}

TEST(LatticeBoltzmannCluster, TheOrderIsWhatItsWaitsAllow) {
  for (auto const& one : k_cases)
    for (unsigned seed = 1; seed <= support::cases(5u); ++seed)
      ASSERT_TRUE(same_bits(in_any_order(one, seed, true), plain_steps(one.problem(), one.steps)))
          << to_string(one.problem()) << ", seed " << seed;
  // Of one cluster nothing else is waited for.
  EXPECT_FALSE(
      same_bits(in_any_order(k_cases[0], 1, false), plain_steps(k_cases[0].problem(), k_cases[0].steps)));
}

TEST(LatticeBoltzmannCluster, TablesSayWhoIsBesideWhom) {
  for (auto const& one : k_cases) {
    auto const cut = one.cut();
    SCOPED_TRACE(testing::Message() << one.box[0] << "x" << one.box[1] << "x" << one.box[2]);
    auto const tables = chip_tables(cut, {});
    int const of = cut.cluster_blocks();
    std::set<int> numbers;
    for (int b = 0; b < cut.count(); ++b) {
      auto const& block = tables.blocks[static_cast<std::size_t>(b)];
      EXPECT_TRUE(numbers.insert(block.number).second);
      EXPECT_EQ(block.row, tables.blocks[0].row);
      EXPECT_EQ(block.plane, tables.blocks[0].plane);
      for (int p = 0; p < block.partners; ++p) {
        int const rank = block.partner[p];
        auto const& other = tables.blocks[static_cast<std::size_t>(b - b % of + rank)];
        EXPECT_NE(rank, b % of);
        EXPECT_EQ(std::count(other.partner, other.partner + other.partners, b % of), 1);
        int at[3] = {};
        cut.of_rank(block.number, rank, at);
        EXPECT_EQ(cut.number_of(at), other.number);
      }
    }
    // What is counted for prices is what there is.
    auto const work = work_of(cut, ChipBlock(cut, cut.count() - 1));
    auto const last = std::find_if(tables.blocks.begin(), tables.blocks.end(),
                                   [&](auto const& block) { return block.number == cut.count() - 1; });
    ASSERT_NE(last, tables.blocks.end());
    EXPECT_EQ(work.rim, last->rim_tasks);
    EXPECT_EQ(work.linked, last->linked_tasks - last->plain_tasks);
    EXPECT_EQ(work.inside, last->inside_tasks);
    EXPECT_EQ(work.taken_cells, last->taken);
    if (in_one_cluster(cut)) {
      EXPECT_EQ(last->taken + last->shown, 0);
    }
  }
  for (int const rank : {0, 3, 7})
    for (int const bytes : {-4 * 2960 * 19, -4, 0, 4, 4 * 2960 * 19}) {
      EXPECT_EQ(rank_of(place_in(rank, bytes)), rank);
      EXPECT_EQ(bytes_of(place_in(rank, bytes)), bytes);
      EXPECT_EQ(rank_of(bytes), -1);
      EXPECT_EQ(bytes_of(bytes), bytes);
    }
}

TEST(LatticeBoltzmannCluster, CutsThatDoNotFillClustersAreRefused) {
  Problem const box{12, 12, 12};
  auto const text = [&](ChipCut const& cut) {
    auto const ok = check_cut(box, cut);
    return ok ? "" : to_text(ok.error());
  };
  EXPECT_EQ(text({{12, 12, 12}, {3, 2, 2}, {2, 1, 1}}),
            "error E0569: clusters of 2x1x1 among 3x2x2 blocks, which do not fill them\n"
            "   hint: take a cluster whose edges divide the numbers of blocks");
  EXPECT_THAT(text({{12, 12, 12}, {4, 4, 4}, {4, 4, 1}}), testing::HasSubstr("clusters of 16 blocks"));
  EXPECT_THAT(text({{12, 12, 12}, {4, 4, 4}, {0, 4, 1}}), testing::HasSubstr("which do not fill them"));
  EXPECT_EQ(text({{12, 12, 12}, {4, 4, 4}, {2, 2, 2}}), "");
}

MachineProfile profile(std::string const& name) {
  auto const one = machine(name);
  return one ? *one : MachineProfile{};
}

TEST(LatticeBoltzmannCluster, MachinesHaveSomeClusters) {
  auto of = profile("h200");
  EXPECT_EQ(blocks_in_clusters(of, 2), 132);
  EXPECT_EQ(blocks_in_clusters(of, 4), 120);
  EXPECT_EQ(blocks_in_clusters(of, 8), 120);
  // Without a probe of such a GPU there are pairs.
  of.sms = 131;
  EXPECT_EQ(blocks_in_clusters(of, 2), 130);
  EXPECT_EQ(blocks_in_clusters(of, 8), 0);
  auto other = profile("h200");
  other.architecture = "sm_80";
  auto const none = price_of({24, 24, 24}, Variant::chip_clusters, other);
  EXPECT_FALSE(none.possible);
  EXPECT_EQ(none.reason, "h200 (sm_80) has no clusters of blocks");
  auto const said = choose_variant({24, 24, 24}, other, Variant::chip_clusters);
  ASSERT_FALSE(said);
  EXPECT_EQ(said.error().front().code, "E0569");
  auto const large = price_of({128, 128, 128}, Variant::chip_clusters, profile("h200"));
  EXPECT_FALSE(large.possible);
  EXPECT_EQ(large.reason, "2097152 cells do not fit on the 132 SMs that clusters find, 2960 on each");
  auto const odd = price_of({1, 1, 1}, Variant::chip_clusters, profile("h200"));
  EXPECT_EQ(odd.reason, "no cut of 1x1x1 cells has blocks that fill clusters");
}

TEST(LatticeBoltzmannCluster, CutsFitWhatTheMachineHas) {
  auto const of = profile("h200");
  for (auto const& box : {Problem{8, 8, 8}, Problem{16, 16, 16}, Problem{48, 36, 132}, Problem{64, 64, 64},
                          Problem{56, 42, 165}, Problem{2, 1, 1}}) {
    auto const cut = cluster_cut(box, of);
    ASSERT_TRUE(cut) << to_string(box);
    ASSERT_OK(check_cut(box, *cut));
    EXPECT_GT(cut->cluster_blocks(), 1);
    EXPECT_LE(cut->count(), blocks_in_clusters(of, cut->cluster_blocks()));
  }
}

/// The hop through distributed shared memory is what boxes of one cluster wait for, and others do not.
TEST(LatticeBoltzmannCluster, FiguresOfTheMachineDecide) {
  auto const of = profile("h200");
  auto far = of;
  for (auto& figure : far.probe->figures)
    if (figure.id == "exchange.cluster.arrival") figure.median *= 4;
  Case const one{{8, 8, 8}, {2, 2, 2}, {2, 2, 2}, 1, false},
      pairs{{48, 36, 132}, {4, 3, 11}, {2, 1, 1}, 1, false};
  EXPECT_NEAR(cluster_cost(one.cut(), far).ns() - cluster_cost(one.cut(), of).ns(),
              3 * cluster_hop_ns(one.cut(), of), 1);
  EXPECT_EQ(cluster_cost(pairs.cut(), far).ns(), cluster_cost(pairs.cut(), of).ns());
  for (auto const& box : {Problem{8, 8, 8}, Problem{48, 36, 132}}) {
    auto const near = simulate_step_ns(box, Variant::chip_clusters, of);
    auto const late = simulate_step_ns(box, Variant::chip_clusters, far);
    ASSERT_OK(near);
    ASSERT_OK(late);
    EXPECT_EQ(*late > *near + 100, box.width == 8) << *near << " and " << *late;
  }
}

/// What is chosen is what is cheapest, and every other way says what it would take.
TEST(LatticeBoltzmannCluster, ThePlannerComparesThemWithOtherWays) {
  for (char const* const name : {"h100", "h200"})
    for (auto const& box : {Problem{8, 8, 8}, Problem{12, 12, 12}, Problem{16, 16, 16}, Problem{20, 20, 20},
                            Problem{24, 24, 24}, Problem{32, 32, 32}, Problem{48, 36, 132},
                            Problem{56, 42, 165}, Problem{64, 64, 64}}) {
      auto const choice = choose_variant(box, profile(name));
      ASSERT_OK(choice);
      std::printf("%s %-32s %s, %.2f us", name, to_string(box).c_str(), to_string(choice->variant).c_str(),
                  choice->ns_per_step / 1e3);
      for (auto const& price : choice->prices) {
        EXPECT_GE(price.ns_per_step, choice->ns_per_step);
        if (price.variant == Variant::chip_clusters || price.variant == Variant::chip_tokens ||
            price.variant == Variant::in_place)
          std::printf("; %s %.2f", to_string(price.variant).c_str(), price.ns_per_step / 1e3);
        if (price.variant == Variant::chip_clusters) {
          EXPECT_THAT(price.reason, testing::HasSubstr("in clusters of "));
          std::printf(" (%s)", price.reason.c_str());
        }
      }
      std::printf("\n");
    }
}

}  // namespace
}  // namespace tessera::lattice_boltzmann::cluster_test
