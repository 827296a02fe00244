// SPDX-License-Identifier: Apache-2.0
// Plans whose launches are of several kinds: the interpreter against the reference, and what a kernel is
// told.
#include <gtest/gtest.h>

#include "run/stamps.hpp"
#include "support/plans.hpp"
#include "tessera/run/runtime_tables.hpp"

namespace tessera {
namespace {

using support::Policy;

/// Five stages, each reading rows of the one before; the third also tiles of the first.
Pipeline chain() {
  Pipeline p;
  p.name = "chain";
  char const* const names[] = {"first", "second", "third", "fourth", "fifth"};
  for (auto const* name : names) p.stages.push_back(support::make_stage(name, 4, 3));
  for (int s = 1; s < 5; ++s) p.dependences.push_back(support::row_dependence(p, s, s - 1));
  p.dependences.push_back(support::tile_dependence(2, 0, "b"));
  return p;
}

/// A kernel; early, two stages in one persistent launch; in order a kernel, and beside it the last.
std::vector<Launch> launches() {
  return {{0, 1, LaunchStart::in_order, false, 0, {}},
          {1, 2, LaunchStart::early, false, 3, {}},
          {3, 1, LaunchStart::in_order, false, 0, {}},
          {4, 1, LaunchStart::beside, true, 0, {}}};
}

Plan mixed() {
  return support::make_plan(chain(), support::ideal_machine(4), launches(), Policy::row_sync, {});
}

void expect_right(Plan const& plan, int workers, unsigned seed, int slow_stage = -1) {
  Stamps stamps(plan.pipeline);
  InterpretOptions options;
  options.workers = workers;
  options.launches = 3;
  options.seed = seed;
  auto const result = interpret(plan, stamps.functions(slow_stage), options);
  ASSERT_TRUE(result.has_value()) << to_text(result.error());
  EXPECT_TRUE(stamps.right(options.launches)) << mechanism_text(plan) << ", seed " << seed;
}

TEST(Mixed, PlansGiveTheReference) {
  auto plan = mixed();
  ASSERT_EQ(mechanism_text(plan), "mixed: first > [second third] | fourth & fifth");
  for (unsigned seed = 0; seed < 10; ++seed) expect_right(plan, 3 + static_cast<int>(seed) * 7, seed);
  // Rows of second and third in turns.
  for (std::int32_t row = 0; row < 3; ++row)
    for (std::int32_t stage = 1; stage < 3; ++stage)
      for (std::int32_t x = 0; x < 4; ++x) plan.launches[1].tickets.push_back({stage, row * 4 + x});
  for (unsigned seed = 0; seed < 10; ++seed) expect_right(plan, 3 + static_cast<int>(seed) * 7, seed);
  // Enough room for all at once, and one stage that is slow.
  for (int slow = 0; slow < 4; ++slow) expect_right(plan, 64, 1, slow);
}

TEST(Mixed, WorkersThatStartEarlyAndLetOthersStartEarly) {
  for (bool const by_tiles : {false, true}) {
    auto const plan =
        support::make_plan(chain(), support::ideal_machine(4),
                           {{0, 2, LaunchStart::in_order, false, 2, {}},
                            {2, 1, LaunchStart::early, false, 0, {}},
                            {3, 1, LaunchStart::early, false, 3, {}},
                            {4, 1, LaunchStart::early, false, 0, {}}},
                           Policy::tile_sync, by_tiles ? std::vector{0, 1, 2, 3, 4} : std::vector<int>{});
    for (unsigned seed = 0; seed < 10; ++seed) expect_right(plan, 4 + static_cast<int>(seed) * 5, seed);
    for (int slow = 0; slow < 4; ++slow) expect_right(plan, 64, 1, slow);
  }
}

TEST(Mixed, PersistentGrids) {
  for (bool const tickets : {false, true}) {
    auto plan = support::make_plan(chain(), support::ideal_machine(4), launches_for(Mechanism::pdl_tiles, 5),
                                   Policy::row_sync, {0, 2}, tickets);
    for (auto& stage : plan.stages) stage.persistent_blocks = 5;
    for (unsigned seed = 0; seed < 5; ++seed) expect_right(plan, 2 + static_cast<int>(seed) * 6, seed);
  }
}

TEST(Mixed, WaitsThatAreLeftOutAreCaught) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "races on purpose";
#endif
  // A dependence that is kept by a grid-wide wait, and of which the interpreter is not told.
  auto plan = mixed();
  Stamps stamps(plan.pipeline);
  ASSERT_EQ(kept_by(plan, plan.dependences[0]), KeptBy::grid_wait);
  plan.pipeline.dependences.erase(plan.pipeline.dependences.begin());
  plan.pipeline.dependences.pop_back();
  plan.dependences = {
      {0, plan.dependences[1].semaphore_set}, {1, -1}, {2, plan.dependences[3].semaphore_set}};
  InterpretOptions options;
  options.workers = 64;
  ASSERT_TRUE(interpret(plan, stamps.functions_in_wrong_order(0, 1), options).has_value());
  EXPECT_FALSE(stamps.right(1));
}

TEST(Mixed, LaunchesThatContradictEachOtherAreRefused) {
  auto const refused = [](auto&& change) {
    auto plan = mixed();
    change(plan);
    Stamps stamps(plan.pipeline);
    auto const result = interpret(plan, stamps.functions());
    return result ? "accepted" : result.error().front().code;
  };
  EXPECT_EQ(refused([](Plan&) {}), "accepted");
  EXPECT_EQ(refused([](Plan& p) { p.launches.pop_back(); }), "E0503");
  EXPECT_EQ(refused([](Plan& p) { p.launches[1].workers = 0; }), "E0503");
  EXPECT_EQ(refused([](Plan& p) { p.launches[1].tickets = {{1, 0}}; }), "E0503");
  EXPECT_EQ(refused([](Plan& p) { p.dependences[3].semaphore_set = -1; }), "E0503");
}

TEST(Mixed, AKernelIsToldWhatItsEdgesAndItsLaunchAsk) {
  auto plan = mixed();
  plan.reuse_edges = {{2, 0, "x", -1}, {3, 0, "x", -1}};
  auto const tables = describe_stages(plan).value();
  auto const stage = [&](int s) { return tables.stage(s, tables.numbers.data(), tables.waits.data()); };

  EXPECT_TRUE(stage(0).triggers_at_start);
  EXPECT_EQ(stage(0).start, Start::ticket);
  EXPECT_EQ(stage(1).start, Start::worker);
  EXPECT_TRUE(stage(1).operand[0].waits_for_grid);
  EXPECT_EQ(stage(1).operand[0].offsets, nullptr);
  // A worker leaves when its launch does, not after a tile.
  EXPECT_FALSE(stage(1).completes_after_previous);
  EXPECT_FALSE(stage(1).triggers_at_start);
  EXPECT_FALSE(stage(2).operand[0].waits_for_grid);
  EXPECT_NE(stage(2).operand[0].offsets, nullptr);
  EXPECT_TRUE(stage(2).operand[1].waits_for_grid);
  EXPECT_TRUE(stage(2).stores_after_grid);
  // The launch before it is complete.
  EXPECT_TRUE(stage(3).operand[0].produced);
  EXPECT_FALSE(stage(3).operand[0].waits_for_grid);
  EXPECT_FALSE(stage(3).stores_after_grid);
  EXPECT_TRUE(stage(3).announces_start);
  EXPECT_FALSE(stage(3).triggers_at_start);
  EXPECT_NE(stage(4).operand[0].offsets, nullptr);

  ASSERT_EQ(tables.launches.size(), 4u);
  auto const workers = tables.tickets(1, tables.numbers.data());
  EXPECT_EQ(workers.first_stage, 1);
  EXPECT_EQ(workers.stages, 2);
  EXPECT_EQ(workers.tickets, 24);
  EXPECT_EQ(workers.workers, 3);
  EXPECT_TRUE(workers.completes_after_previous);
  EXPECT_FALSE(workers.triggers_at_start);
  EXPECT_EQ(tables.tickets(0, tables.numbers.data()).workers, 0);

  // Stage by stage, from the launch's own stages and its own counter.
  std::vector<unsigned long long> counters(static_cast<std::size_t>(counters_for(5)));
  ChainMemory const memory{nullptr, counters.data()};
  auto const draw = [&] { return draw_next(workers, memory, [&](int s) { return stage(s).blocks(); }); };
  for (int i = 0; i < 12; ++i) EXPECT_EQ(draw().stage, 1);
  EXPECT_EQ(draw().stage, 2);
  EXPECT_EQ(*detail::counter(memory, 1, detail::Counter::started), 13u);
}

}  // namespace
}  // namespace tessera
