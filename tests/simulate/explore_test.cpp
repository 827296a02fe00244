// SPDX-License-Identifier: Apache-2.0
#include "tessera/simulate/explore.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulate/explore_search.hpp"
#include "support/cases.hpp"
#include "support/plans.hpp"
#include "support/property.hpp"
#include "support/random_plan.hpp"

namespace tessera {
namespace {

using exploration::Finishing;
using support::figure_one;
using support::ideal_machine;
using support::make_plan;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Pipeline two_tiles_each() {
  auto pipeline = figure_one();
  for (auto& stage : pipeline.stages) stage.grid = {{"x", 2}, {"y", 1}};
  pipeline.dependences = {support::row_dependence(pipeline, 1, 0)};
  return pipeline;
}

TEST(Explore, FigureOneFinishesUnderEveryMechanism) {
  auto const machine = ideal_machine(4);
  for (auto const mechanism : {Mechanism::stream_order, Mechanism::pdl, Mechanism::wait_kernel,
                               Mechanism::pdl_tiles, Mechanism::fused}) {
    auto const explored = explore(make_plan(figure_one(), machine, mechanism), machine);
    EXPECT_TRUE(explored.complete) << to_text(mechanism);
    EXPECT_THAT(explored.deadlock, IsEmpty()) << to_text(mechanism);
    EXPECT_GT(explored.states, 6) << to_text(mechanism);
  }
}

TEST(Explore, ConsumerFirstHoldsAllSms) {
  auto const machine = ideal_machine(2);
  auto const plan = make_plan(two_tiles_each(), machine, Mechanism::wait_kernel, support::Policy::row_sync,
                              {.avoid_wait_kernel = true});
  auto const explored = explore(plan, machine);
  EXPECT_TRUE(explored.complete);
  EXPECT_THAT(explored.deadlock,
              ElementsAre("gemm2(0, 0) starts on SM 0", "gemm2(1, 0) starts on SM 1",
                          "gemm2(0, 0) waits for semaphore 0: 0 of 2, gemm1(0, 0) has not started",
                          "gemm2(1, 0) waits for semaphore 0: 0 of 2, gemm1(0, 0) has not started",
                          "gemm1(0, 0) fits on no SM"));
}

TEST(Explore, TicketsThatPutTheConsumerFirst) {
  auto const machine = ideal_machine(1);
  auto plan = make_plan(two_tiles_each(), machine, Mechanism::fused, support::Policy::row_sync);
  plan.launches[0].tickets = {{0, 0}, {1, 0}, {0, 1}, {1, 1}};
  EXPECT_THAT(explore(plan, machine).deadlock,
              ElementsAre("a worker draws gemm1(0, 0)", "gemm1(0, 0) finishes", "a worker draws gemm2(0, 0)",
                          "gemm2(0, 0) waits for semaphore 0: 1 of 2, gemm1(1, 0) has not started",
                          "gemm1(1, 0) has no free worker"));
  plan.launches[0].tickets.pop_back();
  EXPECT_THAT(explore(plan, machine).deadlock, ElementsAre("3 tickets for 4 blocks"));
  plan.launches[0].tickets.clear();
  plan.launches[0].workers = 2;
  EXPECT_THAT(explore(plan, machine).deadlock, ElementsAre("2 workers, of which 1 can be resident at once"));
}

TEST(Explore, GivesUpAtTheLimit) {
  auto const machine = ideal_machine(4);
  auto const explored = explore(make_plan(figure_one(), machine, Mechanism::wait_kernel), machine, 5);
  EXPECT_FALSE(explored.complete);
  EXPECT_THAT(explored.deadlock, IsEmpty());
}

TEST(Explore, SaysHowFarItIs) {
  auto pipeline = figure_one();
  for (auto& stage : pipeline.stages) stage.grid = {{"x", 4}, {"y", 4}};
  pipeline.dependences = {support::row_dependence(pipeline, 1, 0)};
  auto const machine = ideal_machine(8);
  std::vector<std::int64_t> seen;
  auto const plan = make_plan(pipeline, machine, Mechanism::wait_kernel);
  auto const explored = exploration::search(plan, machine, 3'000, Finishing::any_time,
                                            [&](std::int64_t states) { seen.push_back(states); });
  EXPECT_FALSE(explored.complete);
  EXPECT_THAT(seen, ElementsAre(1024, 2048));
}

TEST(Explore, IgnoresHowSmsAreNumbered) {
  auto const plan = [](MachineProfile const& m) {
    return make_plan(two_tiles_each(), m, Mechanism::pdl_tiles);
  };
  EXPECT_EQ(explore(plan(ideal_machine(8)), ideal_machine(8)).states,
            explore(plan(ideal_machine(4)), ideal_machine(4)).states);
}

// What the reduction rests on: a block that finishes late takes no deadlock away and adds none.
TEST(Explore, FinishingAtOnceLosesNothing) {
  int compared = 0;
  support::check_property("finishing at once loses nothing", support::cases(800), [&] {
    auto const [plan, machine] = *random::plans({3, 7, {}});
    auto const reduced = exploration::search(plan, machine, 20'000, Finishing::at_once);
    auto const whole = exploration::search(plan, machine, 20'000, Finishing::any_time);
    if (!reduced.complete || !whole.complete) return;
    ++compared;
    RC_ASSERT(reduced.deadlock.empty() == whole.deadlock.empty());
    if (whole.deadlock.empty()) RC_ASSERT(reduced.states <= whole.states);
  });
  EXPECT_GT(compared, support::cases(600));
}

}  // namespace
}  // namespace tessera
