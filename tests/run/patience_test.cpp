// SPDX-License-Identifier: Apache-2.0
#include "run/patience.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "support/plans.hpp"

namespace tessera::run {
namespace {

using support::make_stage;

/// Two rows of three tiles, and a consumer of each row.
Plan plan_of(int splits) {
  Pipeline p;
  p.name = "pair";
  p.stages = {make_stage("first", 3, 2, 1, splits), make_stage("second", 3, 2)};
  p.stages[1].operands = {{"a", "first", 0, 0}};
  p.dependences = {support::row_dependence(p, 1, 0)};
  return support::make_plan(p, support::ideal_machine(8), Mechanism::pdl_tiles, support::Policy::row_sync);
}

TEST(UnderWay, BetweenLaunchesEverySemaphoreHasWholeLaunches) {
  for (int const splits : {1, 2}) {
    auto const plan = plan_of(splits);
    auto const each = static_cast<unsigned>(3 * splits);
    for (unsigned launches = 0; launches < 4; ++launches) {
      std::vector<unsigned> semaphores(2, launches * each);
      EXPECT_FALSE(under_way(plan, {semaphores, {}}));
      for (unsigned more = 1; more <= each; ++more) {
        semaphores[0] = launches * each + more;
        EXPECT_TRUE(under_way(plan, {semaphores, {}})) << "the other row has not as many";
        std::swap(semaphores[0], semaphores[1]);
        EXPECT_TRUE(under_way(plan, {semaphores, {}}));
        std::swap(semaphores[0], semaphores[1]);
      }
    }
  }
}

TEST(UnderWay, BlocksThatHaveStartedCountToo) {
  auto const plan = plan_of(1);
  std::vector<unsigned> const semaphores(2, 2 * 3);
  std::vector<unsigned long long> started = {2 * 6, 2 * 6};
  EXPECT_FALSE(under_way(plan, {semaphores, started}));
  started = {2 * 6, 0};
  EXPECT_FALSE(under_way(plan, {semaphores, started})) << "blocks of the second stage are not counted";
  started = {2 * 6 + 1, 2 * 6};
  EXPECT_TRUE(under_way(plan, {semaphores, started}));
  started = {3 * 6, 3 * 6};
  EXPECT_TRUE(under_way(plan, {semaphores, started})) << "all have started, and nobody has posted";
}

TEST(UnderWay, SemaphoresThatWrapAreWholeStill) {
  auto const plan = plan_of(1);
  // 2^32 + 2 posts, a whole number of threes; the count of blocks has 64 bits.
  unsigned long long const launches = ((1ULL << 32) + 2) / 3;
  std::vector<unsigned> semaphores(2, static_cast<unsigned>(3 * launches));
  std::vector<unsigned long long> const started(2, 6 * launches);
  EXPECT_FALSE(under_way(plan, {semaphores, started}));
  ++semaphores[1];
  EXPECT_TRUE(under_way(plan, {semaphores, started}));
}

TEST(WholeLaunches, AreThoseWhosePostsAreThere) {
  for (int const splits : {1, 2}) {
    auto const plan = plan_of(splits);
    auto const each = static_cast<unsigned>(3 * splits);
    for (unsigned launches = 0; launches < 4; ++launches) {
      std::vector<unsigned> const semaphores(2, launches * each);
      EXPECT_EQ(whole_launches(plan, {semaphores, {}}), std::optional(launches));
    }
  }
}

TEST(WholeLaunches, AreUnknownWhereNothingIsCounted) {
  auto plan = plan_of(1);
  plan.semaphores.clear();
  EXPECT_EQ(whole_launches(plan, {{}, {}}), std::nullopt);
}

TEST(Patience, CountsFromWhenALaunchIsSeenToGetStuck) {
  Patience patience(10);
  // Work of others is queued before it.
  for (double now = 0; now < 1000; now += 7) EXPECT_FALSE(patience.gives_up(now, false, 0));
  EXPECT_FALSE(patience.gives_up(1000, true, 1));
  EXPECT_FALSE(patience.gives_up(1009, true, 1));
  EXPECT_FALSE(patience.gives_up(1015, true, 2)) << "it has got on";
  EXPECT_FALSE(patience.gives_up(1025, true, 2));
  EXPECT_TRUE(patience.gives_up(1025.5, true, 2));
}

TEST(Patience, TimeBeforeTheFirstLookDoesNotCount) {
  Patience patience(10);
  EXPECT_FALSE(patience.gives_up(500, true, 1));
  EXPECT_FALSE(patience.gives_up(510, true, 1));
  EXPECT_TRUE(patience.gives_up(511, true, 1));
}

}  // namespace
}  // namespace tessera::run
