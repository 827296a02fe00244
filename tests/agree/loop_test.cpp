// SPDX-License-Identifier: Apache-2.0
// Loops: what check() accepts computes what was meant in every order that a plan allows, and what it refuses
// does not even in stream order.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "support/property.hpp"
#include "support/random_loop.hpp"
#include "support/stencil.hpp"
#include "tessera/check/check.hpp"
#include "tessera/run/interpret.hpp"
#include "tessera/simulate/explore.hpp"
#include "tessera/simulate/rank.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

/// Every tile of a plan on threads, `launches` times; what the last one leaves.
Expected<void> compute(Plan const& plan, random::Values& values, int launches = 1) {
  std::vector<TileFunction> functions;
  for (std::size_t s = 0; s < plan.pipeline.stages.size(); ++s)
    functions.push_back([&values, s](std::int64_t tile, int) { values.compute(s, tile); });
  InterpretOptions options;
  options.workers = std::max(support::most_workers(plan), 4);
  options.launches = launches;
  return interpret(plan, functions, options);
}

TEST(AgreeLoops, AcceptedOnesAreRightInEveryOrderAndRefusedOnesAreWrong) {
  int accepted = 0, refused = 0;
  support::check_property("loops", 1000, [&] {
    auto const loop = random::loop_body();
    int const iterations = window_of(loop) + 2;
    auto const wanted = random::meant(loop, iterations);
    auto const all = unroll(loop, iterations);
    random::Values up(all), down(all);
    up.compute_all(false);
    down.compute_all(true);
    bool const right =
        random::found(loop, up, iterations) == wanted && random::found(loop, down, iterations) == wanted;
    auto const checked = check(loop, iterations);
    if (!checked) {
      ++refused;
      RC_LOG() << to_text(checked.error()) << '\n';
      RC_ASSERT(checked.error().front().code == "E0115");
      RC_ASSERT(!right);
      return;
    }
    ++accepted;
    RC_ASSERT(right);
    if (accepted % 4 != 0) return;  // planning and threads take longer
    auto const machine = support::ideal_machine(4);
    PlanOptions options;
    Mechanism const one[] = {Mechanism::pdl_tiles, Mechanism::fused, Mechanism::pdl};
    options.mechanisms = {one[accepted / 4 % 3]};
    auto const plan = choose_by_simulation(*checked, machine, options);
    if (!plan) RC_LOG() << to_text(plan.error()) << '\n';
    RC_ASSERT(plan.has_value());
    auto const timeline = simulate(*plan, machine);
    if (!timeline) RC_LOG() << to_text(timeline.error()) << '\n';
    RC_ASSERT(timeline.has_value());
    random::Values values(plan->pipeline);
    auto const done = compute(*plan, values);
    if (!done) RC_LOG() << to_text(done.error()) << '\n';
    RC_ASSERT(done.has_value());
    RC_ASSERT(random::found(loop, values, iterations) == wanted);
  });
  EXPECT_GT(accepted, 300);
  EXPECT_GT(refused, 200);
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
    PlanOptions options;
    options.mechanisms = {mechanism};
    auto const plan = choose_by_simulation(*checked, machine, options);
    ASSERT_TRUE(plan) << to_text(mechanism) << to_text(plan.error());
    EXPECT_EQ(mechanism_of(*plan), mechanism);
    ASSERT_TRUE(prove_progress(*plan, machine));
    auto const timeline = simulate(*plan, machine);
    ASSERT_TRUE(timeline) << to_text(timeline.error());
    EXPECT_EQ(timeline->tiles.size(), 80u);
    random::Values values(plan->pipeline);
    auto const done = compute(*plan, values);
    ASSERT_TRUE(done) << to_text(done.error());
    EXPECT_EQ(random::found(loop, values, 10), random::meant(loop, 10)) << to_text(mechanism);
  }
}

TEST(AgreeLoops, EveryScheduleOfASmallStencilEnds) {
  auto const loop = support::stencil(3);
  auto const machine = support::ideal_machine(2);
  auto const checked = check(loop, 4);
  ASSERT_TRUE(checked) << to_text(checked.error());
  for (auto const mechanism : {Mechanism::pdl_tiles, Mechanism::fused}) {
    PlanOptions options;
    options.mechanisms = {mechanism};
    auto const plan = choose_by_simulation(*checked, machine, options);
    ASSERT_TRUE(plan) << to_text(plan.error());
    auto const all = explore(*plan, machine);
    EXPECT_TRUE(all.complete);
    EXPECT_TRUE(all.deadlock.empty());
  }
}

}  // namespace
}  // namespace tessera
