// SPDX-License-Identifier: Apache-2.0
// Kernels that a profile knows by measurement: persistent blocks, power and clock, and pairs that no constant
// was fitted to.
#include <gmock/gmock.h>

#include <cmath>
#include <string>

#include "simulate/power.hpp"
#include "support/plans.hpp"
#include "tessera/describe/workload.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/plan/build.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

double microseconds(Plan const& plan, MachineProfile const& machine) {
  auto const t = simulate(plan, machine, {false});
  EXPECT_TRUE(t.has_value());
  return t ? static_cast<double>(t->end) / 1e6 : -1;
}

Plan mlp(std::int64_t tokens, std::int64_t model, std::int64_t hidden, std::string const& first,
         std::string const& second, MachineProfile const& machine) {
  OperatorGraph graph;
  graph.name = "mlp";
  graph.operators.resize(2);
  auto& up = graph.operators[0];
  auto& down = graph.operators[1];
  up.name = "up";
  up.m = down.m = tokens;
  up.n = down.k = hidden;
  up.k = down.n = model;
  up.inputs = {{"a", "x", "", ReadPattern::rows}, {"b", "w1", "", ReadPattern::rows}};
  down.name = "down";
  down.inputs = {{"a", "up", "up", ReadPattern::rows}, {"b", "w2", "", ReadPattern::rows}};
  std::vector<TileChoice> choices(2);
  for (auto const& kernel : shipped_kernels().for_architecture("sm_90")) {
    if (kernel.name == first) choices[0].kernel = kernel;
    if (kernel.name == second) choices[1].kernel = kernel;
  }
  return build_plan(check(tile(graph, choices).value()).value(), machine, {}).value();
}

// results/h200/mlp.json, hot, CUTLASS in stream order; row by row or column by column.
TEST(MeasuredKernels, PairsOnAnH200ComeOutWithinEightPercent) {
  auto const machine = tessera::machine("h200").value();
  struct {
    std::int64_t tokens, model, hidden;
    char const *first, *second;
    double us;
  } const rows[] = {{256, 12288, 6144, "gemm_128x128x64_2x1", "gemm_128x192x64_2x1", 142.2},
                    {512, 12288, 6144, "gemm_128x192x64_2x1", "gemm_128x128x64_2x1", 242.2},
                    {1024, 12288, 6144, "gemm_128x192x64_2x1", "gemm_128x128x64_2x1", 478.0},
                    {768, 8192, 2752, "gemm_128x128x64_2x1", "gemm_128x128x64_2x1", 114.4},
                    {1024, 8192, 2752, "gemm_128x192x64_2x1", "gemm_128x128x64_2x1", 154.1},
                    {2048, 8192, 2752, "gemm_128x192x64_2x1", "gemm_128x128x64_2x1", 298.2}};
  for (auto const& row : rows)
    EXPECT_NEAR(microseconds(mlp(row.tokens, row.model, row.hidden, row.first, row.second, machine), machine),
                row.us, 0.08 * row.us)
        << row.tokens << " tokens, " << row.first << " -> " << row.second;
}

TEST(MeasuredKernels, APowerLimitSlowsWhatDrawsMoreAndNothingElse) {
  auto const limited = tessera::machine("h200").value();
  auto free = limited;
  free.power_limit_w = 0;
  auto const full = mlp(4096, 12288, 6144, "gemm_128x256x64_2x1", "gemm_128x256x64_2x1", free);
  EXPECT_GT(microseconds(full, limited), 1.2 * microseconds(full, free));
  auto burst = limited;
  burst.power_limit_w = limited.power_burst_w;
  EXPECT_LT(microseconds(full, burst), microseconds(full, limited));
  auto const few = mlp(64, 768, 512, "gemm_64x128x64_1x1", "gemm_64x128x64_1x1", free);
  EXPECT_EQ(microseconds(few, limited), microseconds(few, free));
}

TEST(MeasuredKernels, TheSettledClockDrawsTheLimit) {
  auto const m = tessera::machine("h200").value();
  simulation::Work const work{4e11, 3e9, 5e8};
  double const steady = 1e4, cycles = 8e5;
  auto const clock = simulation::settled_clock(m, work, steady, cycles);
  EXPECT_LT(clock, m.clock_ghz);
  EXPECT_NEAR(simulation::watts(m, work, steady + cycles / clock, clock), m.power_limit_w, 0.01);
  EXPECT_EQ(simulation::settled_clock(m, {}, steady, cycles), m.clock_ghz);
}

// One SM, blocks of 10 us; a start of 3 us, 2 us from the last slice to the stored tile, 1 us to the next.
TEST(MeasuredKernels, APersistentBlockStartsOnceAndStoresBesideItsNextLoads) {
  auto machine = support::ideal_machine(1);
  machine.block_start_ns = 3000;
  machine.kernels["known"] = {10000, 2000, 1000, 1, "test"};
  Pipeline p;
  p.name = "p";
  p.stages = {support::make_stage("one", 4, 1)};
  p.stages[0].kernel = "known";
  auto plan = support::make_plan(p, machine, Mechanism::stream_order);
  EXPECT_DOUBLE_EQ(microseconds(plan, machine), 4 * (3 + 10 + 2));
  plan.stages[0].persistent_blocks = 1;
  EXPECT_DOUBLE_EQ(microseconds(plan, machine), 3 + 3 * (10 + 1) + 10 + 2);
}

TEST(MeasuredKernels, GeluTakesTimeBehindEachTile) {
  auto machine = support::ideal_machine(1);
  machine.kernels["known"] = {10000, 2000, 1000, 1, "test", 500};
  Pipeline p;
  p.name = "p";
  p.stages = {support::make_stage("one", 4, 1)};
  p.stages[0].kernel = "known";
  p.stages[0].activation = "gelu";
  auto plan = support::make_plan(p, machine, Mechanism::stream_order);
  EXPECT_DOUBLE_EQ(microseconds(plan, machine), 4 * (10 + 2.5));
  plan.stages[0].persistent_blocks = 1;
  EXPECT_DOUBLE_EQ(microseconds(plan, machine), 3 * (10 + 1.5) + 10 + 2.5);
  plan.pipeline.stages[0].activation = "relu";
  EXPECT_DOUBLE_EQ(microseconds(plan, machine), 3 * (10 + 1) + 10 + 2);
}

TEST(MeasuredKernels, PersistentBlocksTakePositionsAtAStride) {
  auto machine = support::ideal_machine(2);
  machine.kernels["known"] = {1000, 0, 0, 1, "test"};
  Pipeline p;
  p.name = "p";
  p.stages = {support::make_stage("one", 5, 1)};
  p.stages[0].kernel = "known";
  auto plan = support::make_plan(p, machine, Mechanism::stream_order);
  plan.stages[0].persistent_blocks = 2;
  auto const t = simulate(plan, machine).value();
  ASSERT_EQ(t.tiles.size(), 5U);
  for (auto const& tile : t.tiles) EXPECT_EQ(tile.sm, tile.tile % 2) << tile.tile;
}

// Two columns and three rows of tiles on six SMs: one wave, but with clusters two high eight tiles, two of
// which only pad.
TEST(MeasuredKernels, TilesThatPadClustersTakeSmsAndNothingElse) {
  auto machine = support::ideal_machine(6);
  machine.kernels["known"] = {10000, 0, 0, 1, "test"};
  Pipeline p;
  p.name = "p";
  p.stages = {support::make_stage("one", 2, 3), support::make_stage("two", 2, 3)};
  for (auto& stage : p.stages) stage.kernel = "known";
  for (auto const mechanism : {Mechanism::stream_order, Mechanism::pdl, Mechanism::pdl_tiles})
    for (int const persistent : {0, 6}) {
      // Under PDL alone it is a dependence that makes blocks wait for the grid.
      if (mechanism == Mechanism::pdl) p.dependences = {support::tile_dependence(1, 0)};
      if (mechanism == Mechanism::pdl_tiles) p.dependences.clear();
      auto plan = support::make_plan(p, machine, mechanism);
      for (auto& stage : plan.stages) stage.persistent_blocks = persistent;
      machine.kernels["known"].cluster_rows = 1;
      auto const fits = simulate(plan, machine).value();
      machine.kernels["known"].cluster_rows = 2;
      auto const padded = simulate(plan, machine).value();
      EXPECT_EQ(fits.end, 20'000'000) << to_text(mechanism) << persistent;
      // The second kernel's first four tiles share the wave of the first one's padding where they need not
      // wait.
      EXPECT_EQ(padded.end, mechanism == Mechanism::pdl_tiles ? 30'000'000 : 40'000'000)
          << to_text(mechanism) << persistent;
      EXPECT_EQ(padded.tiles.size(), 12U);
      EXPECT_DOUBLE_EQ(padded.dram_bytes, fits.dram_bytes);
    }
}

}  // namespace
}  // namespace tessera
