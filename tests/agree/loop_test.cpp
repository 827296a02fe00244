// SPDX-License-Identifier: Apache-2.0
// Loops: what check() accepts computes what was meant in the simulator, in the interpreter and in every order
// that a plan allows; what it refuses gets stuck, or a tile is overwritten before it is read.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/cases.hpp"
#include "support/loop_by_tiles.hpp"
#include "support/loop_run.hpp"
#include "support/random_loop.hpp"
#include "support/stencil.hpp"
#include "tessera/check/check.hpp"
#include "tessera/plan/loop_plan.hpp"
#include "tessera/run/interpret.hpp"
#include "tessera/simulate/explore.hpp"
#include "tessera/simulate/rank.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

constexpr std::uint64_t k_loops = support::cases(1000);

/// Stage by stage, the tiles of each up or down: empty where that is right.
std::string wrong_in_stage_order(Loop const& loop, int iterations, bool down) {
  support::LoopRun run(loop, iterations);
  for (int n = 0; n < iterations; ++n)
    for (int s = 0; s < run.table().stages; ++s)
      for (int i = 0, tiles = run.table().stage[s].tiles; i < tiles; ++i)
        run.compute(s, n, down ? tiles - 1 - i : i);
  return run.wrong(loop_table::meant(loop, iterations));
}

/// Every tile in the order in which the simulator's tiles end.
std::string wrong_in_simulator(Loop const& loop, int iterations, Plan const& plan,
                               MachineProfile const& machine) {
  auto const timeline = simulate(plan, machine);
  if (!timeline) return to_text(timeline.error());
  auto tiles = timeline->tiles;
  std::stable_sort(tiles.begin(), tiles.end(),
                   [](TileRecord const& a, TileRecord const& b) { return a.posted < b.posted; });
  support::LoopRun run(loop, iterations);
  for (auto const& tile : tiles) run.compute_unrolled(static_cast<std::size_t>(tile.stage), tile.tile);
  return run.wrong(loop_table::meant(loop, iterations));
}

/// Every tile on threads.
std::string wrong_in_interpreter(Loop const& loop, int iterations, Plan const& plan, unsigned seed) {
  support::LoopRun run(loop, iterations);
  std::vector<TileFunction> functions;
  for (std::size_t s = 0; s < plan.pipeline.stages.size(); ++s)
    functions.push_back([&run, s](std::int64_t tile, int) { run.compute_unrolled(s, tile); });
  InterpretOptions options;
  options.workers = std::max(support::most_workers(plan), 4);
  options.seed = seed;
  auto const done = interpret(plan, functions, options);
  return done ? run.wrong(loop_table::meant(loop, iterations)) : to_text(done.error());
}

Expected<Plan> plan_of(CheckedPipeline const& checked, MachineProfile const& machine, Mechanism mechanism) {
  PlanOptions options;
  options.mechanisms = {mechanism};
  return choose_by_simulation(checked, machine, options);
}

TEST(AgreeLoops, AcceptedOnesEndRightInTheSimulatorAndTheInterpreter) {
  int accepted = 0;
  for (std::uint64_t seed = 0; seed < k_loops; ++seed) {
    auto const loop = random::loop_of(seed);
    auto const trace = random::text_of(seed, loop);
    int const iterations = window_of(loop) + 2;
    auto const machine = support::ideal_machine(1 + static_cast<int>(seed % 4));
    auto const checked = check(loop, iterations);
    // For a number of iterations that is known when running, the same loops are accepted.
    ASSERT_EQ(plan_loop(loop, machine).has_value(), checked.has_value()) << trace;
    if (!checked) continue;
    ++accepted;
    for (bool const down : {false, true})
      ASSERT_EQ(wrong_in_stage_order(loop, iterations, down), "") << trace;
    Mechanism const every[] = {Mechanism::pdl_tiles, Mechanism::fused, Mechanism::pdl,
                               Mechanism::stream_order};
    auto const mechanism = every[accepted % 4];
    auto const plan = plan_of(*checked, machine, mechanism);
    ASSERT_TRUE(plan) << to_text(plan.error()) << trace;
    ASSERT_EQ(wrong_in_simulator(loop, iterations, *plan, machine), "") << to_text(mechanism) << trace;
    ASSERT_EQ(wrong_in_interpreter(loop, iterations, *plan, static_cast<unsigned>(seed)), "")
        << to_text(mechanism) << trace;
  }
  EXPECT_GT(accepted, support::cases(300));
}

/// What the explorer finds in all schedules of the loop's first iterations.
std::vector<std::string> stuck(Loop const& loop, support::ByTiles const& how) {
  auto const plan = support::LoopByTiles(loop, window_of(loop), how).plan();
  auto const found = explore(plan, support::ideal_machine(how.workers));
  EXPECT_TRUE(found.complete);
  return found.deadlock;
}

TEST(AgreeLoops, RefusedOnesHaveADeadlockOrAHazardThatTheExplorerFindsAndAcceptedOnesHaveNone) {
  int accepted = 0, deadlocks = 0, hazards = 0;
  for (std::uint64_t seed = 0; seed < k_loops; ++seed) {
    auto const loop = random::loop_of(seed);
    auto const trace = random::text_of(seed, loop);
    auto const checked = check(loop, window_of(loop));
    if (checked) {
      ++accepted;
      for (int const workers : {1, 3})
        for (bool const down : {false, true}) {
          auto const found = stuck(loop, {workers, down, true});
          ASSERT_TRUE(found.empty()) << found.back() << '\n' << trace;
        }
      continue;
    }
    auto const why = to_text(checked.error()) + '\n' + trace;
    auto const& code = checked.error().front().code;
    if (random::reads_backwards(loop)) {
      ++deadlocks;
      ASSERT_TRUE(code == "E0104" || code == "E0115") << why;
      ASSERT_FALSE(stuck(loop, {}).empty()) << why;
      continue;
    }
    ++hazards;
    ASSERT_EQ(code, "E0115") << why;
    for (bool const down : {false, true}) ASSERT_TRUE(stuck(loop, {1, down, false}).empty()) << why;
    ASSERT_FALSE(stuck(loop, {1, false, true}).empty() && stuck(loop, {1, true, true}).empty()) << why;
    // The schedule that was found, with values.
    for (bool const down : {false, true})
      ASSERT_EQ(stuck(loop, {1, down, true}).empty(),
                wrong_in_stage_order(loop, window_of(loop), down).empty())
          << (down ? "down " : "up ") << why;
  }
  RecordProperty("accepted", accepted);
  RecordProperty("deadlocks", deadlocks);
  RecordProperty("hazards", hazards);
  EXPECT_GT(accepted, support::cases(300));
  EXPECT_GT(deadlocks, support::cases(30));
  EXPECT_GT(hazards, support::cases(200));
}

TEST(AgreeLoops, TheExplorerNamesTheTileThatComesTooEarly) {
  // Tiles of one copy that read their left neighbour of the step before: downwards that is right.
  auto loop = support::stencil(3);
  loop.copies.clear();
  loop.carried[0].dependence.accesses[0].ranges[0].end = TileExpr::dimension(0);
  auto const found = stuck(loop, {1, false, true});
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[found.size() - 2],
            "step_0_0(0, 0) waits for semaphore 1: 0 of 1, step_0_1(0, 0) has not started");
  EXPECT_TRUE(stuck(loop, {1, true, true}).empty());
}

TEST(AgreeLoops, ATenStepStencilIsProvedSimulatedAndRight) {
  auto const loop = support::stencil(8);
  auto const machine = support::ideal_machine(6);
  auto const checked = check(loop, 10);
  ASSERT_TRUE(checked) << to_text(checked.error());
  // Who overwrites a tile waits for all who read it; but which tiles of the field before the loop are read
  // nobody says.
  for (auto const& reuse : checked->reuses())
    EXPECT_TRUE(reuse.covered || reuse.reader == 0) << reuse.writer << " " << reuse.reader;
  for (auto const mechanism :
       {Mechanism::stream_order, Mechanism::pdl, Mechanism::pdl_tiles, Mechanism::fused}) {
    auto const plan = plan_of(*checked, machine, mechanism);
    ASSERT_TRUE(plan) << to_text(mechanism) << to_text(plan.error());
    EXPECT_EQ(mechanism_of(*plan), mechanism);
    ASSERT_TRUE(prove_progress(*plan, machine));
    auto const timeline = simulate(*plan, machine);
    ASSERT_TRUE(timeline) << to_text(timeline.error());
    EXPECT_EQ(timeline->tiles.size(), 80u);
    EXPECT_EQ(wrong_in_simulator(loop, 10, *plan, machine), "") << to_text(mechanism);
    EXPECT_EQ(wrong_in_interpreter(loop, 10, *plan, 0), "") << to_text(mechanism);
  }
}

TEST(AgreeLoops, EveryScheduleOfASmallStencilEnds) {
  auto const loop = support::stencil(3);
  auto const machine = support::ideal_machine(2);
  auto const checked = check(loop, 4);
  ASSERT_TRUE(checked) << to_text(checked.error());
  for (auto const mechanism : {Mechanism::pdl_tiles, Mechanism::fused}) {
    auto const plan = plan_of(*checked, machine, mechanism);
    ASSERT_TRUE(plan) << to_text(plan.error());
    auto const all = explore(*plan, machine);
    EXPECT_TRUE(all.complete);
    EXPECT_TRUE(all.deadlock.empty());
  }
}

}  // namespace
}  // namespace tessera
