// SPDX-License-Identifier: Apache-2.0
// Every schedule of plans that mix mechanisms.
#include "simulate/mixed_plans.hpp"
#include "support/property.hpp"
#include "support/random_plan.hpp"
#include "tessera/simulate/explore.hpp"

namespace tessera {
namespace {

using namespace mixed;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(MixedExplore, FinishesWhereEveryScheduleDoes) {
  auto const machine = ideal_machine(2);
  for (auto const& plan : {workers_in_a_chain(machine, false), workers_in_a_chain(machine, true)}) {
    auto const explored = explore(plan, machine);
    EXPECT_TRUE(explored.complete);
    EXPECT_THAT(explored.deadlock, IsEmpty());
  }
}

TEST(MixedExplore, TicketsThatPutTheConsumerFirst) {
  auto const machine = ideal_machine(2);
  auto plan = workers_in_a_chain(machine, false);
  plan.launches[1].workers = 1;
  plan.launches[1].tickets = {{2, 0}, {2, 1}, {1, 0}, {1, 1}};
  EXPECT_THAT(explore(plan, machine).deadlock,
              ElementsAre("a(0, 0) starts on SM 0", "a(0, 0) finishes", "a(1, 0) starts on SM 0",
                          "a(1, 0) finishes", "a worker of b starts on SM 0", "a worker draws c(0, 0)",
                          "c(0, 0) waits for semaphore 0: 0 of 1, b(0, 0) has not started",
                          "c(1, 0) has no free worker"));
}

// The second group alone: the first is complete before it begins, and its posts are there.
TEST(MixedExplore, AGroupBehindAnotherGetsStuckByItself) {
  auto const machine = ideal_machine(1);
  auto plan = row_of_stages({make_stage("a", 2, 1), make_stage("b", 1, 1), make_stage("c", 1, 1)}, machine);
  plan.launches[2].start = k_beside;
  add_dependence(plan, 1, 0, true);
  add_dependence(plan, 2, 1, true);
  EXPECT_THAT(
      explore(plan, machine).deadlock,
      ElementsAre("c(0, 0) starts on SM 0", "c(0, 0) waits for semaphore 2: 0 of 1, b(0, 0) has not started",
                  "b(0, 0) fits on no SM"));
  plan.launches[2].start = k_early;
  EXPECT_THAT(explore(plan, machine).deadlock, IsEmpty());
}

// The simulator is one schedule of those that the explorer tries.
TEST(MixedExplore, WhatEveryScheduleFinishesTheSimulatorFinishes) {
  int finished = 0, stuck = 0, of_several = 0;
  support::check_property("the simulator is one of the schedules", 3000, [&] {
    auto const [plan, machine] = *random::plans();
    auto const explored = explore(plan, machine, 20'000);
    if (!explored.complete) return;
    auto const timeline = simulate(plan, machine);
    if (timeline) {
      std::int64_t blocks = 0;
      for (auto const& stage : plan.pipeline.stages) blocks += stage.blocks();
      RC_ASSERT(static_cast<std::int64_t>(timeline->tiles.size()) == blocks);
    } else {
      RC_LOG() << to_text(timeline.error()) << '\n';
      RC_ASSERT(!explored.deadlock.empty());
    }
    (timeline ? finished : stuck) += 1;
    of_several += !mechanism_of(plan);
  });
  EXPECT_GT(finished, 1500);
  EXPECT_GT(stuck, 200);
  EXPECT_GT(of_several, 300);
}

}  // namespace
}  // namespace tessera
