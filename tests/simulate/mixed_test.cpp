// SPDX-License-Identifier: Apache-2.0
// Plans that mix mechanisms, on machines where the answer is known on paper.
#include <gmock/gmock.h>

#include "simulate/stage_cost.hpp"
#include "support/plans.hpp"
#include "support/property.hpp"
#include "support/random_plan.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/simulate/explore.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

using support::ideal_machine;
using support::make_stage;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr auto k_in_order = LaunchStart::in_order;
constexpr auto k_early = LaunchStart::early;
constexpr auto k_beside = LaunchStart::beside;

/// One block per SM; a round number of nanoseconds for everything but memory.
MachineProfile round_machine(int sms) {
  auto machine = ideal_machine(sms);
  machine.launch_ns = 3000;
  machine.stream_gap_ns = 700;
  machine.stream_start_ns = 900;
  machine.pdl_gap_ns = 130;
  machine.trigger_ns = 70;
  machine.pdl_grid_wait_ns = 450;
  machine.block_start_ns = 210;
  machine.ticket_ns = 50;
  machine.post_ns = 300;
  machine.wait_ns = 200;
  return machine;
}

/// A row of blocks for each stage; no dependences, one launch in order for each.
Plan row_of_stages(std::vector<Stage> stages, MachineProfile const& machine) {
  Pipeline p;
  p.name = "mixed";
  p.stages = std::move(stages);
  return support::make_plan(p, machine, Mechanism::stream_order);
}

/// consumer(x) reads producer(x), or all of it if their grids differ; with a semaphore for each tile if
/// `semaphores`.
void add_dependence(Plan& plan, int consumer, int producer, bool semaphores, std::string operand = "a") {
  auto& p = plan.pipeline;
  auto& reader = p.stages[static_cast<std::size_t>(consumer)];
  auto const& read = p.stages[static_cast<std::size_t>(producer)];
  reader.operands.push_back({operand, read.name, 0, 0});
  p.dependences.push_back(reader.tiles() == read.tiles()
                              ? support::tile_dependence(consumer, producer, operand)
                              : support::row_dependence(p, consumer, producer, operand));
  int set = -1;
  if (semaphores) {
    set = static_cast<int>(plan.semaphores.size());
    std::int64_t const first = set == 0 ? 0 : plan.semaphores.back().first + plan.semaphores.back().count;
    plan.semaphores.push_back(
        {producer, support::map_of(support::Policy::tile_sync), "TileSync", first, read.tiles()});
  }
  plan.dependences.push_back({static_cast<int>(p.dependences.size()) - 1, set});
}

Timeline run(Plan const& plan, MachineProfile const& machine) {
  auto const timeline = simulate(plan, machine);
  EXPECT_TRUE(timeline.has_value()) << to_text(timeline.error());
  return timeline.value_or(Timeline{});
}

// In nanoseconds.
std::int64_t first_start(Timeline const& t, std::size_t stage) {
  return t.stages.at(stage).first_start / 1000;
}
std::int64_t last_end(Timeline const& t, std::size_t stage) { return t.stages.at(stage).last_end / 1000; }

/// a in order > b early, waiting for the grid | c and d by workers.
Plan early_then_workers(MachineProfile const& machine) {
  auto plan = row_of_stages(
      {make_stage("a", 3, 1, 2), make_stage("b", 2, 1), make_stage("c", 4, 1), make_stage("d", 4, 1)},
      machine);
  plan.launches = {
      {0, 1, k_in_order, false, 0, {}}, {1, 1, k_early, false, 0, {}}, {2, 2, k_in_order, false, 4, {}}};
  add_dependence(plan, 1, 0, false);
  add_dependence(plan, 2, 1, false);
  add_dependence(plan, 3, 2, true);
  return plan;
}

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

/// a in order > b and c by workers | d in order. b reads nothing, c reads b and perhaps a.
Plan workers_in_a_chain(MachineProfile const& machine, bool reads_a) {
  auto plan = row_of_stages(
      {make_stage("a", 2, 1, 5), make_stage("b", 2, 1), make_stage("c", 2, 1), make_stage("d", 1, 1)},
      machine);
  plan.launches = {
      {0, 1, k_in_order, false, 0, {}}, {1, 2, k_early, false, 2, {}}, {3, 1, k_in_order, false, 0, {}}};
  add_dependence(plan, 2, 1, true);
  if (reads_a) add_dependence(plan, 2, 0, false, "b");
  add_dependence(plan, 3, 2, false);
  return plan;
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
  auto cost = simulation::stage_costs(plan, machine)[2];
  EXPECT_TRUE(cost.loads_early);
  EXPECT_EQ(cost.early_l2_bytes, 1e6) << "a | b > c: of a's and b's output, a's";
  plan.launches[2].start = k_in_order;
  cost = simulation::stage_costs(plan, machine)[2];
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
            mismatch("launch 2 holds 2 stages from stage 3 on, where c (stage 2 of 4) is next"));
  EXPECT_EQ(outcome([](Plan& p) { p.launches[2].stages = 3; }),
            mismatch("launch 2 holds 3 stages from stage 2 on, where c (stage 2 of 4) is next"));
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
  int finished = 0, stuck = 0, mixed = 0;
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
    mixed += !mechanism_of(plan);
  });
  EXPECT_GT(finished, 1500);
  EXPECT_GT(stuck, 200);
  EXPECT_GT(mixed, 300);
}

}  // namespace
}  // namespace tessera
