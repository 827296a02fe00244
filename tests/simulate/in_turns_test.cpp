// SPDX-License-Identifier: Apache-2.0
// Plans in turns share the clock at which their mean power is the limit.
#include "tessera/simulate/in_turns.hpp"
#include "tessera/shipped_kernels.hpp"

#include <gmock/gmock.h>

#include "support/plans.hpp"
#include "tessera/describe/workload.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/plan/build.hpp"

namespace tessera {
namespace {

// One GEMM in 128 x 256 tiles, persistent, column by column.
Plan gemm(std::int64_t rows, std::int64_t columns, std::int64_t depth, MachineProfile const& machine) {
  OperatorGraph graph;
  graph.name = "gemm";
  graph.operators.resize(1);
  auto& one = graph.operators[0];
  one.name = "one";
  one.m = rows;
  one.n = columns;
  one.k = depth;
  one.inputs = {{"a", "x", "", ReadPattern::rows}, {"b", "w", "", ReadPattern::rows}};
  std::vector<TileChoice> choice(1);
  for (auto const& kernel : shipped_kernels().for_architecture("sm_90"))
    if (kernel.name == "gemm_128x256x64_2x1") choice[0].kernel = kernel;
  auto plan = build_plan(check(tile(graph, choice).value()).value(), machine, {}).value();
  auto& planned = plan.stages[0];
  planned.persistent_blocks = machine.sms;
  planned.custom_order = true;
  auto const across = static_cast<std::int32_t>(plan.pipeline.stages[0].grid[0].extent);
  auto const down = static_cast<std::int32_t>(plan.pipeline.stages[0].grid[1].extent);
  planned.order.name = "columns";
  planned.order.table.clear();
  for (std::int32_t column = 0; column < across; ++column)
    for (std::int32_t row = 0; row < down; ++row) planned.order.table.push_back(row * across + column);
  return plan;
}

double microseconds(Timeline const& timeline) { return static_cast<double>(timeline.end) / 1e6; }

class InTurns : public testing::Test {
 protected:
  MachineProfile machine = tessera::machine("h200").value();
  // As bench/predict/clock_in_turns runs them.
  Plan full = gemm(2048, 16896, 3072, machine);
  Plan third = gemm(256, 5120, 10240, machine);
};

TEST_F(InTurns, OneAloneGoesAtItsOwnClock) {
  auto const turns = simulate_in_turns({full}, machine).value();
  auto const alone = simulate(full, machine).value();
  EXPECT_NEAR(microseconds(turns[0].timeline), microseconds(alone), 0.005 * microseconds(alone));
  EXPECT_LT(turns[0].clock_ghz, machine.clock_ghz);
}

TEST_F(InTurns, WhatDrawsLittleLendsItsPowerToWhatDrawsMuch) {
  auto const turns = simulate_in_turns({full, third}, machine).value();
  EXPECT_LT(microseconds(turns[0].timeline), 0.9 * microseconds(simulate(full, machine).value()));
  EXPECT_GT(microseconds(turns[1].timeline), 1.02 * microseconds(simulate(third, machine).value()));
  // results/h200/clock_in_turns.json, turns of 1.2 ms: 1.627 and 1.699 GHz.
  EXPECT_NEAR(turns[0].clock_ghz, 1.627, 0.05 * 1.627);
  EXPECT_NEAR(turns[1].clock_ghz, 1.699, 0.05 * 1.699);
  // Three times as long for the one: 1.505 and 1.519.
  auto const more = simulate_in_turns({full, full, full, third}, machine).value();
  EXPECT_EQ(more[0].clock_ghz, more[1].clock_ghz);
  EXPECT_NEAR(more[0].clock_ghz, 1.505, 0.05 * 1.505);
  EXPECT_NEAR(more[3].clock_ghz, 1.519, 0.05 * 1.519);
}

TEST_F(InTurns, NoneGoesBeyondTheBurstLimit) {
  std::vector<Plan> plans(9, third);
  plans.push_back(full);
  auto burst = machine;
  burst.power_limit_w = machine.power_burst_w;
  auto const turns = simulate_in_turns(plans, machine).value();
  EXPECT_NEAR(microseconds(turns[9].timeline), microseconds(simulate(full, burst).value()),
              0.01 * microseconds(turns[9].timeline));
  EXPECT_GT(turns[0].clock_ghz, turns[9].clock_ghz);
}

TEST_F(InTurns, WithoutALimitEachRunsAsAlone) {
  machine.power_limit_w = 0;
  auto const turns = simulate_in_turns({full, third}, machine).value();
  EXPECT_EQ(turns[0].timeline, simulate(full, machine).value());
  EXPECT_EQ(turns[1].timeline, simulate(third, machine).value());
  EXPECT_EQ(turns[0].clock_ghz, machine.clock_ghz);
  EXPECT_TRUE(simulate_in_turns({}, machine).value().empty());
}

TEST_F(InTurns, OnePlanThatDoesNotFitRefusesAll) {
  auto large = full;
  large.pipeline.stages[0].resources.shared_bytes = 1 << 20;
  auto const refused = simulate_in_turns({third, large}, machine);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().front().code, "E0301");
}

}  // namespace
}  // namespace tessera
