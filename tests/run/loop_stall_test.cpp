// SPDX-License-Identifier: Apache-2.0
// The iteration of a stall: every wait of random loops, as the device library makes it, with nobody who
// posts.
#include "tessera/run/loop_stall.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "support/fake_clock.hpp"
#include "support/plans.hpp"
#include "support/random_loop.hpp"
#include "tessera/check/check.hpp"
#include "tessera/run/loop_tables.hpp"
#include "tessera/sync/data_token.cuh"

namespace tessera {
namespace {

using View = LoopStageView<support::FakeWatch>;
constexpr unsigned long long k_deadline = 1000;  // of the fake clock

struct Waits {
  int own = 0, carried = 0, of_readers = 0, untold = 0;
};

/// Has each tile of each stage wait in the launch's periods. What it reaches behind the first one is met.
void stall_everywhere(LoopPlan const& plan, long long iterations, Waits& seen) {
  auto const tables = describe_loop(plan);
  RC_ASSERT(tables);
  auto const records = tables->records(tables->tables.numbers.data(), tables->tables.waits.data());
  std::size_t count = 1;
  for (auto const& set : plan.plan.semaphores) count = static_cast<std::size_t>(set.first + set.count);
  auto const of_launch = (iterations + plan.period - 1) / plan.period;
  for (unsigned epoch = 0; epoch < 3 * of_launch; ++epoch)
    for (auto const& record : records)
      for (int tile = 0; tile < record.stage.blocks(); ++tile) {
        auto const look = [&](auto const& wait, int& kind) {
          std::vector<unsigned> semaphores(count);
          std::vector<unsigned long long> counters(64);
          StallRecord stall;
          LoopDraw draw;
          draw.tile = tile;
          draw.epoch = epoch;
          View view(record, {semaphores.data(), counters.data()}, {&stall, k_deadline}, draw);
          if (wait(view)) return;
          auto const found = stalled_iteration(plan, stall, iterations);
          if (!found) return void(++seen.untold);
          RC_ASSERT(*found == epoch % of_launch * plan.period + record.iteration);
          ++kind;
        };
        look([](View& view) { return view.wait_all(operand_a); },
             record.back[0] > 0 ? seen.carried : seen.own);
        look([](View& view) { return view.wait_all(operand_b); },
             record.back[1] > 0 ? seen.carried : seen.own);
        look([](View& view) { return view.wait_before_store(); }, seen.of_readers);
      }
}

TEST(LoopStall, EveryWaitTellsItsIteration) {
  Waits seen;
  EXPECT_TRUE(rc::check("random loops", [&] {
    auto const loop = random::loop_body();
    auto const plan = plan_loop(loop, support::ideal_machine(4));
    if (!plan) return;
    stall_everywhere(*plan, *rc::gen::inRange(1, 6), seen);
  }));
  EXPECT_GT(seen.own, 100);
  EXPECT_GT(seen.carried, 100);
  EXPECT_GT(seen.of_readers, 100);
  EXPECT_LT(10 * seen.untold, seen.own + seen.carried + seen.of_readers);
}

/// step 4 x 1 reads its neighbours an iteration before; two copies of u.
LoopPlan stencil() {
  Loop loop;
  loop.body.name = "stencil";
  loop.body.stages = {support::make_stage("step", 4, 1)};
  loop.body.stages[0].output = "u";
  loop.body.stages[0].operands = {{"before", "u", 0, 0}};
  auto const x = TileExpr::dimension(0);
  TileRange const around{x - TileExpr::constant(1), x + TileExpr::constant(2), true};
  loop.carried = {{{0,
                    0,
                    "before",
                    {{{around, support::just(TileExpr::dimension(1))}}},
                    OnComplete::release_waiters,
                    {},
                    {}},
                   1}};
  loop.copies = {{"u", 2}};
  return plan_loop(loop, support::ideal_machine(4)).value();
}

TEST(LoopStall, IsToldByTheNumberOfPosts) {
  auto const plan = stencil();
  ASSERT_EQ(plan.period, 2);
  auto const of = [&](int producer) {
    for (auto const& set : plan.plan.semaphores)
      if (set.producer == producer) return set.first;
    return std::int64_t{-1};
  };
  auto const at = [&](int stage, long long semaphore, unsigned expected, long long iterations) {
    StallRecord record;
    record.state = 2;
    record.stage = stage;
    record.semaphore = semaphore;
    record.expected = expected;
    return stalled_iteration(plan, record, iterations);
  };
  // The second step of a period waits for the first one of its own, the first for the second one before.
  EXPECT_EQ(at(1, of(0), 1, 10), 1);
  EXPECT_EQ(at(1, of(0), 4, 10), 7);
  EXPECT_EQ(at(0, of(1), 1, 10), 2);
  EXPECT_EQ(at(0, of(1), 4, 10), 8);
  // Ten iterations are five periods, nine as well: the sixth period is the second launch's first.
  EXPECT_EQ(at(1, of(0), 6, 10), 1);
  EXPECT_EQ(at(1, of(0), 6, 9), 1);
  EXPECT_EQ(at(1, of(0), 6, 12), 11);
  EXPECT_EQ(at(0, of(1), 5, 10), 0);
  // What no wait of the plan is.
  EXPECT_EQ(at(1, of(1), 1, 10), std::nullopt);
  EXPECT_EQ(at(1, k_data_token, 1, 10), std::nullopt) << "data of an iteration that is not known";
  EXPECT_EQ(at(1, data_token_of(0), 1, 10), 0);
  EXPECT_EQ(at(0, data_token_of(7), 1, 10), 7);
  EXPECT_EQ(at(2, of(0), 1, 10), std::nullopt);
  EXPECT_EQ(at(1, of(0), 1, 0), std::nullopt);
  EXPECT_EQ(stalled_iteration(plan, StallRecord{}, 10), std::nullopt);
}

}  // namespace
}  // namespace tessera
