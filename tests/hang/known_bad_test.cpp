// SPDX-License-Identifier: Apache-2.0
// Plans that are known to hang: refused by the proof before anything runs, and a deadlock wherever they are
// run all the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "support/plans.hpp"
#include "tessera/plan/progress.hpp"
#include "tessera/run/interpret.hpp"
#include "tessera/simulate/explore.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

using support::figure_one;
using support::ideal_machine;
using support::make_plan;
using support::make_stage;
using support::Policy;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string refusal(Plan const& plan, MachineProfile const& machine) {
  auto const proof = prove_progress(plan, machine);
  return proof ? "accepted: " + *proof : to_text(proof.error());
}
std::string simulation_code(Plan const& plan, MachineProfile const& machine) {
  auto const timeline = simulate(plan, machine);
  return timeline ? "finished" : timeline.error().front().code;
}
std::string interpretation_code(Plan const& plan, int workers) {
  InterpretOptions options;
  options.workers = workers;
  options.deadline_seconds = 0.2;
  std::vector<TileFunction> const functions(plan.stages.size(), [](std::int64_t, int) {});
  auto const done = interpret(plan, functions, options);
  return done ? "finished" : done.error().front().code;
}

TEST(Hang, ConsumerFirst) {
  auto const machine = ideal_machine(4);
  auto const plan =
      make_plan(figure_one(), machine, Mechanism::wait_kernel, Policy::row_sync, {.avoid_wait_kernel = true});
  EXPECT_EQ(refusal(plan, machine),
            "error E0302: 4 of gemm2's 6 blocks (1 on each) can hold all 4 SMs while gemm1(0, 0) has not "
            "started: gemm2(0, 0) waits for it\n"
            "   gemm2 has no wait kernel, so blocks of gemm2 may be placed before those of gemm1\n"
            "   all 6 of gemm2's blocks wait for others; up to 3 would leave room\n"
            "   hint: give gemm2 a wait kernel, use PDL or one fused launch, or fewer blocks in gemm2");
  EXPECT_THAT(explore(plan, machine).deadlock, Not(IsEmpty()));
}

TEST(Hang, TheTwoWavesRuleIsNotEnough) {
  // Section IV-C of the paper avoids the wait kernel where both kernels can run in less than two waves. Here
  // they take half a wave and one wave, and the consumer can still take every SM.
  auto const machine = ideal_machine(6);
  auto pipeline = figure_one();
  pipeline.stages[0].grid = {{"x", 3}, {"y", 1}};
  pipeline.stages[1].grid = {{"x", 6}, {"y", 1}};
  auto const plan =
      make_plan(pipeline, machine, Mechanism::wait_kernel, Policy::row_sync, {.avoid_wait_kernel = true});
  EXPECT_EQ(plan.stages[0].waves, 0.5);
  EXPECT_EQ(plan.stages[1].waves, 1);
  EXPECT_EQ(refusal(plan, machine),
            "error E0302: all 6 blocks of gemm2 (1 on each) can hold all 6 SMs while gemm1(0, 0) has not "
            "started: gemm2(0, 0) waits for it\n"
            "   gemm2 has no wait kernel, so blocks of gemm2 may be placed before those of gemm1\n"
            "   all 6 of gemm2's blocks wait for others; up to 5 would leave room\n"
            "   hint: give gemm2 a wait kernel, use PDL or one fused launch, or fewer blocks in gemm2");
  EXPECT_THAT(explore(plan, machine).deadlock, Not(IsEmpty()));
}

TEST(Hang, TheTwoWavesRuleIsEnoughWhereTheConsumerLeavesAnSm) {
  auto const machine = ideal_machine(7);
  auto const plan =
      make_plan(figure_one(), machine, Mechanism::wait_kernel, Policy::row_sync, {.avoid_wait_kernel = true});
  EXPECT_TRUE(prove_progress(plan, machine));
  auto const explored = explore(plan, machine);
  EXPECT_TRUE(explored.complete);
  EXPECT_THAT(explored.deadlock, IsEmpty());
}

TEST(Hang, WaitKernelsHoldTheOnlySm) {
  auto const machine = ideal_machine(1);
  auto pipeline = figure_one();
  pipeline.stages.push_back(make_stage("gemm3", 3, 2));
  pipeline.stages[2].operands = {{"a", "gemm2", 0, 0}};
  pipeline.dependences.push_back(support::row_dependence(pipeline, 2, 1));
  auto const plan = make_plan(pipeline, machine, Mechanism::wait_kernel, Policy::row_sync);
  EXPECT_EQ(refusal(plan, machine),
            "error E0302: the wait kernel of gemm3 can hold the only SM while gemm1(0, 0) has not started: "
            "the wait kernel of gemm3 waits for the first block of gemm2\n"
            "   wait kernels hold block slots while gemm1 has not started\n"
            "   hint: use PDL or one fused launch");
  EXPECT_THAT(explore(plan, machine).deadlock, Not(IsEmpty()));
  EXPECT_EQ(simulation_code(plan, machine), "E0501");
}

TEST(Hang, TicketsInTheWrongOrder) {
  auto const machine = ideal_machine(4);
  auto plan = make_plan(figure_one(), machine, Mechanism::fused, Policy::row_sync);
  for (int const stage : {1, 0})
    for (std::int32_t block = 0; block < 6; ++block) plan.launches.front().tickets.push_back({stage, block});
  EXPECT_EQ(refusal(plan, machine),
            "error E0302: all 4 workers are stuck after ticket 3: gemm2(0, 0) waits for gemm1(0, 0), which "
            "has the later ticket 6\n"
            "   hint: put a tile's producers before it in the tickets, or use more workers");
  EXPECT_THAT(explore(plan, machine).deadlock, Not(IsEmpty()));
  EXPECT_EQ(simulation_code(plan, machine), "E0501");
  EXPECT_EQ(interpretation_code(plan, 4), "E0502");
}

TEST(Hang, TooFewWorkersForTheTickets) {
  auto const machine = ideal_machine(4);
  auto plan = make_plan(figure_one(), machine, Mechanism::fused, Policy::row_sync);
  plan.launches.front().tickets = {{1, 0}, {1, 1}, {0, 0}, {0, 1}, {0, 2}, {1, 2},
                                   {0, 3}, {0, 4}, {0, 5}, {1, 3}, {1, 4}, {1, 5}};
  plan.launches.front().workers = 3;
  EXPECT_TRUE(prove_progress(plan, machine));
  EXPECT_EQ(simulation_code(plan, machine), "finished");
  plan.launches.front().workers = 2;
  EXPECT_EQ(refusal(plan, machine),
            "error E0302: all 2 workers are stuck after ticket 1: gemm2(0, 0) waits for gemm1(0, 0), which "
            "has the later ticket 2\n"
            "   hint: put a tile's producers before it in the tickets, or use more workers");
  EXPECT_THAT(explore(plan, machine).deadlock, Not(IsEmpty()));
  EXPECT_EQ(simulation_code(plan, machine), "E0501");
  EXPECT_EQ(interpretation_code(plan, 2), "E0502");
}

TEST(Hang, MoreWorkersThanCanBeResident) {
  auto const machine = ideal_machine(4);
  auto plan = make_plan(figure_one(), machine, Mechanism::fused, Policy::row_sync);
  plan.launches.front().workers = 5;
  EXPECT_EQ(refusal(plan, machine),
            "error E0302: 5 workers of the persistent launch cannot be resident at once: ideal holds 4 (1 on "
            "each of 4 SMs)\n"
            "   hint: use at most 4 workers");
  EXPECT_THAT(explore(plan, machine).deadlock, Not(IsEmpty()));
  EXPECT_NE(simulation_code(plan, machine), "finished");
}

TEST(Hang, WaitsForASetThatItPostsToItself) {
  auto const machine = ideal_machine(4);
  for (auto const mechanism : {Mechanism::wait_kernel, Mechanism::pdl_tiles, Mechanism::fused}) {
    auto plan = make_plan(figure_one(), machine, mechanism, Policy::row_sync);
    plan.semaphores[0].producer = 1;
    EXPECT_EQ(refusal(plan, machine),
              "error E0302: gemm2 waits for semaphores that gemm2 posts to, which does not come before it\n"
              "   hint: a stage can wait for earlier stages only");
    EXPECT_THAT(explore(plan, machine).deadlock, Not(IsEmpty()));
    EXPECT_NE(simulation_code(plan, machine), "finished") << to_text(mechanism);
    EXPECT_EQ(interpretation_code(plan, 4), "E0502") << to_text(mechanism);
  }
}

}  // namespace
}  // namespace tessera
