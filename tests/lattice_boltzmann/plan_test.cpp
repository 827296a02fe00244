// SPDX-License-Identifier: Apache-2.0
// How boxes are cut, what is planned for them, and which variant is chosen.
#include <gmock/gmock.h>

#include <tessera/measure/machine_json.hpp>

#include "kernels/lattice_boltzmann/on_chip.hpp"
#include "kernels/lattice_boltzmann/step_choice.hpp"
#include "support/assert_ok.hpp"

namespace tessera::lattice_boltzmann {
namespace {

MachineProfile h200() {
  auto const profile = machine("h200");
  return profile ? *profile : MachineProfile{};
}
Problem box(int width, int height, int depth) { return {width, height, depth}; }

TEST(LatticeBoltzmannCut, FillsTheChipAndNoMore) {
  auto const even = chip_cut(box(48, 36, 132), 132);
  ASSERT_TRUE(even);
  EXPECT_EQ(even->count(), 132);
  EXPECT_LE(even->most_cells(), k_chip_cells);
  auto const full = chip_cut(box(56, 42, 165), 132);
  ASSERT_TRUE(full);
  EXPECT_EQ(full->count(), 132);
  EXPECT_EQ(full->most_cells(), 14 * 14 * 15);
  EXPECT_FALSE(chip_cut(box(128, 128, 128), 132));
  EXPECT_FALSE(chip_cut(box(48, 36, 132), 32));
  auto const tiny = chip_cut(box(1, 2, 3), 132);
  ASSERT_TRUE(tiny);
  EXPECT_EQ(tiny->count(), 1) << "a task is 32 cells";
}

TEST(LatticeBoltzmannPlan, TilesWaitForTheTilesAroundThem) {
  for (auto const& problem : {box(48, 36, 132), box(29, 23, 31), box(5, 1, 2), box(1, 1, 1)}) {
    auto const cut = chip_cut(problem, 132);
    ASSERT_TRUE(cut);
    for (bool const tokens : {false, true}) {
      auto const plan = plan_steps(*cut, {k_chip_threads, 80, k_chip_shared_bytes}, h200(), tokens);
      ASSERT_OK(plan);
      EXPECT_TRUE(plan->is_persistent());
      EXPECT_EQ(plan->plan.launches.front().workers, cut->count());
      EXPECT_EQ(plan->period, 2);
    }
  }
  ASSERT_OK(plan_launch(h200()));
}

TEST(LatticeBoltzmannChoice, TheChipForSmallBoxesAndLaunchesForLargeOnes) {
  auto const machine = h200();
  auto const small = choose_variant(box(48, 36, 132), machine);
  ASSERT_OK(small);
  EXPECT_EQ(small->variant, Variant::chip_tokens);
  EXPECT_THAT(small->reason, testing::HasSubstr("12x12x12 cells on an SM"));
  EXPECT_EQ(small->prices.size(), std::size(k_variants));
  auto const large = choose_variant(box(256, 256, 256), machine);
  ASSERT_OK(large);
  EXPECT_EQ(large->variant, Variant::trips);
  EXPECT_THAT(large->reason, testing::HasSubstr("32x12x86 cells in 528 blocks"));
  auto const launches = choose_variant(box(256, 256, 256), machine, Variant::two_lattices);
  ASSERT_OK(launches);
  EXPECT_THAT(launches->reason, testing::HasSubstr("us of memory"));
  auto const unmeasured = choose_variant(box(16, 16, 16), MachineProfile{});
  EXPECT_FALSE(unmeasured && on_chip(unmeasured->variant)) << "no SM has a place";
}

TEST(LatticeBoltzmannChoice, TwoGpusPayForLargeBoxes) {
  auto const machine = h200();
  // What one GPU takes in the same way: a launch for each step.
  auto const over_one = [&](Problem const& problem, int gpus) {
    return price_of(problem, Variant::two_lattices, machine).ns_per_step / slabs_ns(problem, gpus, machine);
  };
  EXPECT_GT(over_one(box(512, 512, 1024), 2), 1.9);
  EXPECT_GT(over_one(box(512, 512, 1024), 8), 7);
  EXPECT_GT(over_one(box(256, 256, 256), 2), 1.9);
  EXPECT_LT(over_one(box(24, 24, 24), 2), 1.3);
  // Below some size the neighbour's answer is all there is to wait for.
  EXPECT_EQ(slabs_ns(box(8, 8, 8), 2, machine), slabs_ns(box(4, 4, 4), 2, machine));
}

TEST(LatticeBoltzmannRefusal, MemoryAndChips) {
  auto const machine = h200();
  auto const problem = box(512, 512, 512);
  EXPECT_EQ(memory_of(problem, Variant::in_place), 76LL << 27);
  EXPECT_EQ(memory_of(problem, Variant::two_lattices), 152LL << 27);
  auto const refused = check_memory(problem, Variant::two_lattices, 12LL << 30);
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      to_text(refused.error()),
      "error E0569: a box of 512x512x512 cells, tau 0.6 as two_lattices needs 19.00 GiB of memory, and 12.00 "
      "GiB are free\n   hint: take the variant in_place, which needs 9.50 GiB");
  EXPECT_THAT(to_text(check_memory(problem, Variant::in_place, 8LL << 30).error()),
              testing::HasSubstr("hint: ask for at most 483 cells along each axis"));
  EXPECT_TRUE(check_memory(problem, Variant::in_place, 76LL << 27));
  EXPECT_FALSE(check_memory(problem, Variant::in_place, 76LL << 27, 4LL << 27)) << "a field beside it";
  auto const chosen = choose_variant(problem, machine, 12LL << 30);
  ASSERT_OK(chosen);
  EXPECT_EQ(chosen->variant, Variant::in_place);
  auto const chip = choose_variant(problem, machine, Variant::chip_tokens);
  ASSERT_FALSE(chip);
  EXPECT_EQ(
      to_text(chip.error()),
      "error E0569: a box of 512x512x512 cells, tau 0.6 as chip_tokens: 134217728 cells do not fit on 132 "
      "SMs, 2960 on each\n   hint: take a variant whose cells are in memory");
}

TEST(LatticeBoltzmannRefusal, CutsOfAnotherBoxAndOfNothing) {
  auto const problem = box(24, 20, 16);
  EXPECT_TRUE(check_cut(problem, *chip_cut(problem, 132)));
  EXPECT_TRUE(check_cut(problem, {{24, 20, 16}, {24, 20, 16}}));
  auto const text = [&](ChipCut const& cut) {
    auto const checked = check_cut(problem, cut);
    return checked ? "" : to_text(checked.error());
  };
  EXPECT_EQ(text({{24, 20, 17}, {2, 2, 2}}),
            "error E0569: a cut of a box of 24x20x17 cells for a box of 24x20x16 cells, tau 0.6\n"
            "   hint: cut the problem's own box");
  std::string const hint = "hint: cut each axis into 1 block at least, and into no more than its cells";
  EXPECT_THAT(text({{24, 20, 16}, {2, 0, 2}}), testing::HasSubstr(hint));
  EXPECT_THAT(text({{24, 20, 16}, {-1, -1, 2}}), testing::HasSubstr(hint));
  EXPECT_THAT(text({{24, 20, 16}, {2, 2, 17}}), testing::HasSubstr("a cut into 2x2x17 blocks of a box"));
  EXPECT_EQ(text({{24, 20, 16}, {2, 1, 1}}),
            "error E0569: blocks of 3840 cells on a chip\n   hint: 2960 fit: cut the box into more blocks");
  EXPECT_TRUE(check_cut(box(20, 148, 1), {{20, 148, 1}, {1, 1, 1}}));
  EXPECT_FALSE(check_cut(box(21, 141, 1), {{21, 141, 1}, {1, 1, 1}}));
  // More than an int counts.
  EXPECT_FALSE(check_cut(box(128, 4096, 4095), {{128, 4096, 4095}, {1, 1, 1}}));
}

TEST(LatticeBoltzmannChoice, VariantsHaveNames) {
  for (auto const variant : k_variants) EXPECT_EQ(variant_named(to_string(variant)), variant);
  EXPECT_FALSE(variant_named("fastest"));
}

}  // namespace
}  // namespace tessera::lattice_boltzmann
