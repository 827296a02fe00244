// SPDX-License-Identifier: Apache-2.0
// Plans that mix mechanisms, on machines where the answer is known on paper.
#include "simulate/mixed_plans.hpp"
#include "simulate/stage_cost.hpp"

namespace tessera {
namespace {

using namespace mixed;
using testing::ElementsAre;

TEST(Mixed, AnEarlyLaunchBehindOneInOrderThenWorkers) {
  auto const machine = round_machine(4);
  auto const plan = early_then_workers(machine);
  auto const t = run(plan, machine);
  EXPECT_EQ(t.mechanism, "mixed: a > b | [c d]");
  // a: launch, prologue, main loop.
  EXPECT_EQ(first_start(t, 0), 3000);
  EXPECT_EQ(last_end(t, 0), 3000 + 210 + 2000);
  // b's first block takes the fourth SM as soon as a has triggered, and waits for a; the second takes one
  // that a leaves and need not wait.
  EXPECT_EQ(first_start(t, 1), 3000 + 70 + 130);
  std::vector<std::int64_t> ends;
  for (auto const& tile : t.tiles)
    if (tile.stage == 1) ends.push_back(tile.posted / 1000);
  EXPECT_THAT(ends, ElementsAre(5210 + 450 + 1000, 5210 + 210 + 1000));
  EXPECT_EQ(last_end(t, 1), 6660);
  // The workers start when a and b are complete; each draws a tile of c and one of d. Only c posts.
  EXPECT_EQ(first_start(t, 2), 6660 + 700 + 210);
  EXPECT_EQ(last_end(t, 2), 7570 + 50 + 1000 + 300);
  EXPECT_EQ(first_start(t, 3), 8920);
  EXPECT_EQ(t.end / 1000, 8920 + 50 + 200 + 1000);
}

TEST(Mixed, WorkersThatStartEarlyLeaveWhenTheLaunchBeforeIsComplete) {
  auto const machine = round_machine(4);
  auto const t = run(workers_in_a_chain(machine, false), machine);
  EXPECT_EQ(last_end(t, 0), 8210);
  EXPECT_EQ(first_start(t, 1), 3200 + 210);
  EXPECT_EQ(last_end(t, 1), 3410 + 50 + 1000 + 300);
  EXPECT_EQ(last_end(t, 2), 4760 + 50 + 200 + 1000);
  // d behind the workers' end, not behind their last tile's.
  EXPECT_EQ(first_start(t, 3), 8210 + 450 + 700);
}

TEST(Mixed, AWorkerWaitsForTheGridWithTheTilesThatNeedItOnly) {
  auto const machine = round_machine(4);
  auto const t = run(workers_in_a_chain(machine, true), machine);
  EXPECT_EQ(last_end(t, 1), 4760) << "b goes on";
  EXPECT_EQ(last_end(t, 2), 8210 + 450 + 200 + 1000);
  EXPECT_EQ(first_start(t, 3), 9860 + 700);
}

TEST(Mixed, EachWorkerLaunchDrawsItsOwnTickets) {
  auto const machine = ideal_machine(2);
  auto plan = row_of_stages(
      {make_stage("a", 2, 1), make_stage("b", 2, 1), make_stage("c", 2, 1), make_stage("d", 2, 1)}, machine);
  plan.launches = {{0, 2, k_in_order, false, 1, {{0, 1}, {0, 0}, {1, 0}, {1, 1}}},
                   {2, 2, k_early, false, 1, {{3, 1}, {2, 0}, {3, 0}, {2, 1}}}};
  auto const t = run(plan, machine);
  EXPECT_EQ(t.end, 4'000'000) << "a worker on each SM";
  std::vector<std::pair<int, std::int64_t>> drawn[2];
  for (auto const& tile : t.tiles) drawn[tile.stage / 2].push_back({tile.stage, tile.tile});
  EXPECT_THAT(drawn[0], ElementsAre(std::pair(0, 1), std::pair(0, 0), std::pair(1, 0), std::pair(1, 1)));
  EXPECT_THAT(drawn[1], ElementsAre(std::pair(3, 1), std::pair(2, 0), std::pair(3, 0), std::pair(2, 1)));
}

TEST(Mixed, LaunchesBesideEachOtherStartWithTheirGroup) {
  auto const machine = round_machine(4);
  auto plan = row_of_stages(
      {make_stage("a", 1, 1), make_stage("b", 1, 1, 9), make_stage("c", 1, 1), make_stage("d", 1, 1)},
      machine);
  // a | b & c && d: only c is behind a wait kernel.
  plan.launches[2] = {2, 1, k_beside, true, 0, {}};
  plan.launches[3] = {3, 1, k_beside, false, 0, {}};
  auto const t = run(plan, machine);
  EXPECT_EQ(t.mechanism, "mixed: a | b & c && d");
  EXPECT_EQ(first_start(t, 1), 4210 + 700);
  EXPECT_EQ(first_start(t, 3), 4210 + 700);
  EXPECT_EQ(first_start(t, 2), 4210 + 700 + 900);
  // b's first block has a wait kernel to release.
  EXPECT_EQ(t.end / 1000, 4910 + 210 + 300 + 9000);
}

TEST(Mixed, AGroupEndsWithItsLastLaunch) {
  auto const machine = round_machine(4);
  auto plan =
      row_of_stages({make_stage("a", 1, 1, 9), make_stage("b", 1, 1), make_stage("c", 1, 1)}, machine);
  plan.launches[1].start = k_beside;
  EXPECT_EQ(first_start(run(plan, machine), 2), 3000 + 210 + 9000 + 700);
}

TEST(Mixed, AChainedPlanHidesItsLaunch) {
  auto machine = round_machine(4);
  auto plan = row_of_stages({make_stage("a", 1, 1)}, machine);
  plan.launches[0].start = k_early;
  EXPECT_EQ(first_start(run(plan, machine), 0), 450);
  machine.launch_ns = 100;
  EXPECT_EQ(first_start(run(plan, machine), 0), 100);
}

TEST(Mixed, AChainedPlanIsOneOnAMachineWithAShorterLaunchUnderAPowerLimitToo) {
  auto const machine = tessera::machine("h200").value();
  auto shorter = machine;
  shorter.launch_ns = std::min(machine.launch_ns, machine.pdl_grid_wait_ns);
  ASSERT_LT(shorter.launch_ns, machine.launch_ns);
  support::GemmTile const tile{128, 128, 64, 3, 1, {256, 128, 98304}};
  auto plan =
      support::make_plan(support::make_gemm_pair({1024, 4096, 2048}, tile, tile), machine, Mechanism::pdl);
  auto const expected = simulate(plan, shorter).value();
  plan.launches[0].start = k_early;
  EXPECT_EQ(simulate(plan, machine).value(), expected);
}

TEST(Mixed, AReuseKeptByTheGridIsWaitedForBeforeTheStore) {
  auto const machine = round_machine(4);
  auto plan = row_of_stages({make_stage("a", 1, 1, 5), make_stage("b", 1, 1)}, machine);
  plan.launches[1].start = k_early;
  plan.reuse_edges = {{1, 0, "x", -1}};
  auto const t = run(plan, machine);
  ASSERT_EQ(t.tiles.size(), 2U);
  EXPECT_EQ(t.tiles[1].loaded / 1000, 3200 + 210 + 1000);
  EXPECT_EQ(t.tiles[1].stored / 1000, 8210 + 450);
}

TEST(Mixed, OperandsThatCompletionKeepsLoadEarly) {
  auto const machine = round_machine(4);
  auto plan = row_of_stages({make_stage("a", 2, 1), make_stage("b", 2, 1), make_stage("c", 2, 1)}, machine);
  plan.launches[2].start = k_early;
  add_dependence(plan, 2, 0, false, "from a");
  add_dependence(plan, 2, 1, false, "from b");
  for (auto& operand : plan.pipeline.stages[2].operands) operand.bytes_per_block = operand.unique_bytes = 1e6;
  plan.stages[2].reorder_loads = true;
  auto cost = simulation::stage_costs(plan, machine, machine.clock_ghz)[2];
  EXPECT_TRUE(cost.loads_early);
  EXPECT_EQ(cost.early.l2, 1e6) << "a | b > c: of a's and b's output, a's";
  plan.launches[2].start = k_in_order;
  cost = simulation::stage_costs(plan, machine, machine.clock_ghz)[2];
  EXPECT_FALSE(cost.loads_early) << "nothing to wait for";
}

TEST(Mixed, RefusesLaunchesThatContradictThePipeline) {
  auto const machine = ideal_machine(4);
  auto const good = early_then_workers(machine);
  auto const outcome = [&](auto&& change) {
    auto plan = good;
    change(plan);
    auto const t = simulate(plan, machine);
    return t ? std::string() : t.error()[0].code + ": " + t.error()[0].message;
  };
  auto const mismatch = [](std::string const& what) {
    return "E0505: the plan does not fit its pipeline: " + what;
  };
  EXPECT_EQ(outcome([](Plan&) {}), "");
  EXPECT_EQ(outcome([](Plan& p) { p.launches.clear(); }), mismatch("no launch holds a"));
  EXPECT_EQ(outcome([](Plan& p) { p.launches.pop_back(); }), mismatch("no launch holds c"));
  EXPECT_EQ(outcome([](Plan& p) { p.launches[2].first = 3; }),
            mismatch("launch 2 begins with d, where c is next"));
  EXPECT_EQ(outcome([](Plan& p) { p.launches[2].stages = 3; }),
            mismatch("launch 2 holds 3 stages, where 2 are left from c on"));
  EXPECT_EQ(outcome([](Plan& p) { p.launches.push_back(p.launches[2]); }),
            mismatch("launch 3 begins with c, where all stages are launched"));
  EXPECT_EQ(outcome([](Plan& p) {
              p.launches.push_back(p.launches[2]);
              p.launches[3].first = 4;
            }),
            mismatch("launch 3 begins with stage 4 of 4, where all stages are launched"));
  EXPECT_EQ(outcome([](Plan& p) { p.launches[2].workers = 0; }),
            mismatch("c + d are in one launch, which has no workers"));
  EXPECT_EQ(outcome([](Plan& p) { p.launches[2].workers = -1; }),
            mismatch("the launch of c + d has -1 workers"));
  EXPECT_EQ(outcome([](Plan& p) {
              p.launches[0].tickets = {{0, 0}};
            }),
            mismatch("the launch of a has tickets and no workers"));
  EXPECT_EQ(outcome([](Plan& p) {
              p.launches[2].tickets = std::vector<Launch::Ticket>(8, {1, 0});
            }),
            mismatch("a ticket names stage 1, which is not in the launch of c + d"));
  EXPECT_EQ(outcome([](Plan& p) {
              p.launches[2].tickets = {{2, 0}, {3, 0}};
            }),
            mismatch("there are 2 tickets for 8 blocks"));
  EXPECT_EQ(outcome([](Plan& p) { p.launches[1].wait_kernel = true; }),
            mismatch("the launch of b has a wait kernel, but does not start beside another"));
  EXPECT_EQ(outcome([](Plan& p) { p.launches[0].start = k_beside; }),
            mismatch("the launch of a starts beside, and none comes before it"));
  EXPECT_EQ(outcome([](Plan& p) { p.launches[2].start = k_beside; }),
            mismatch("the launch of c + d starts beside others, of which that of b starts early"));
  EXPECT_EQ(outcome([](Plan& p) {
              p.launches[0].workers = 2;
              p.launches[1].start = k_beside;
            }),
            mismatch("the launch of b starts beside others, of which that of a has workers"));
  EXPECT_EQ(outcome([](Plan& p) { p.dependences[2].semaphore_set = -1; }),
            mismatch("d reads what c writes, and nothing makes it wait: both are in one launch"));
  EXPECT_EQ(outcome([](Plan& p) { p.launches[1].start = k_beside; }),
            mismatch("b reads what a writes, and nothing makes it wait: its launch starts beside that of a"));
  EXPECT_EQ(
      outcome([](Plan& p) {
        p.reuse_edges = {{3, 2, "x", -1}};
      }),
      mismatch(
          "d overwrites \"x\", which c may still use, and nothing makes it wait: both are in one launch"));
  EXPECT_EQ(outcome([](Plan& p) { p.launches[2].workers = 5; }),
            "E0302: a persistent launch of 5 workers is not resident at once: ideal has room for 4");
}

TEST(Mixed, ADeadlockNamesTheLaunchThatHoldsTheTicket) {
  auto const machine = round_machine(4);
  auto plan = workers_in_a_chain(machine, false);
  plan.launches[1].tickets = {{2, 0}, {2, 1}, {1, 0}, {1, 1}};
  auto const refused = simulate(plan, machine);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(
      to_text(refused.error()),
      "error E0501: mixed under mixed: a > [b c] | d stops: 5 of 7 blocks are unfinished and nothing can "
      "happen any more\n"
      "   c tile (0, 0) waits for tile (0, 0) of b (semaphore 0): 0 of 1 posted; missing b(0, 0): not "
      "started, its ticket comes later and all 2 workers wait\n"
      "   hint: keep the consumer from taking the SMs first: a wait kernel, PDL, one persistent launch, or "
      "stream order");
}

}  // namespace
}  // namespace tessera
