// SPDX-License-Identifier: Apache-2.0
// Times of launches become the same Timeline as stamps of tiles, without tiles.
#include <gmock/gmock.h>

#include "support/plans.hpp"
#include "tessera/run/measured.hpp"

namespace tessera {
namespace {

Plan three_stages() {
  Pipeline p;
  p.name = "chain";
  p.stages = {support::make_stage("a", 4, 2), support::make_stage("b", 4, 2), support::make_stage("c", 4, 2)};
  p.dependences = {support::tile_dependence(1, 0), support::tile_dependence(2, 1)};
  auto plan = support::make_plan(p, support::ideal_machine(4), Mechanism::stream_order);
  plan.stages[1].variant = "its own";
  return plan;
}

TEST(LaunchTimeline, HasASpanForEachStage) {
  std::vector<LaunchSpan> const spans{{0, 10.5}, {12, 20}, {21, 19}};
  auto const t = launch_timeline(three_stages(), spans, 4);
  EXPECT_TRUE(t.measured && t.by_launch);
  EXPECT_TRUE(t.tiles.empty());
  EXPECT_EQ(t.mechanism, "stream order");
  EXPECT_EQ(t.sms, 4);
  ASSERT_EQ(t.stages.size(), 3u);
  EXPECT_EQ(t.stages[0].last_end, 10'500'000);
  EXPECT_EQ(t.stages[1].first_start, 12'000'000);
  EXPECT_EQ(t.stages[1].variant, "its own");
  EXPECT_THAT(t.stages[1].extent, testing::ElementsAre(4, 2));
  // Events tick in steps: nothing ends before it starts.
  EXPECT_EQ(t.stages[2].last_end, t.stages[2].first_start);
  EXPECT_EQ(t.end, 21'000'000);
}

TEST(LaunchTimeline, GivesTheStagesOfOneLaunchTheSameTimes) {
  auto plan = three_stages();
  plan.launches = {{0, 1, LaunchStart::in_order, false, 0, {}}, {1, 2, LaunchStart::in_order, false, 4, {}}};
  std::vector<LaunchSpan> const spans{{0, 10}, {12, 20}};
  auto const t = launch_timeline(plan, spans, 4);
  EXPECT_EQ(t.stages[1].first_start, t.stages[2].first_start);
  EXPECT_EQ(t.stages[1].last_end, t.stages[2].last_end);
  EXPECT_EQ(t.end, 20'000'000);
}

}  // namespace
}  // namespace tessera
