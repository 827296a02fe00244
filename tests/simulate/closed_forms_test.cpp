// SPDX-License-Identifier: Apache-2.0
// Limits in which the answer is known on paper.
#include <gmock/gmock.h>

#include "support/plans.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

constexpr Mechanism k_mechanisms[] = {Mechanism::stream_order, Mechanism::pdl, Mechanism::wait_kernel,
                                      Mechanism::pdl_tiles, Mechanism::fused};

Timeline run(Plan const& plan, MachineProfile const& machine) {
  auto const timeline = simulate(plan, machine);
  EXPECT_TRUE(timeline.has_value()) << to_text(timeline.error());
  return timeline.value_or(Timeline{});
}

Pipeline one_stage(int columns, int rows, double microseconds = 1) {
  Pipeline p;
  p.name = "one";
  p.stages = {support::make_stage("only", columns, rows, microseconds)};
  return p;
}

TEST(ClosedForms, MemoryInfiniteIsWavesTimesBlockTime) {
  for (int const sms : {1, 4, 80, 132})
    for (int const columns : {1, 3, 79, 80, 81, 265}) {
      auto const machine = support::ideal_machine(sms);
      auto const t =
          run(support::make_plan(one_stage(columns, 1, 2), machine, Mechanism::stream_order), machine);
      auto const waves = (columns + sms - 1) / sms;
      EXPECT_EQ(t.end, waves * 2'000'000) << columns << " blocks on " << sms;
      EXPECT_EQ(t.waves, waves);
    }
}

TEST(ClosedForms, ComputeInfiniteIsBytesOverBandwidthPlusLatency) {
  auto machine = support::ideal_machine(8);
  machine.dram_gbps = 1000;  // one byte per picosecond
  machine.dram_latency_ns = 500;
  auto p = one_stage(8, 1, 0);
  p.stages[0].operands = {{"a", "x", 1e6, 8e6}};
  auto const t = run(support::make_plan(p, machine, Mechanism::stream_order), machine);
  EXPECT_EQ(t.end, 8'000'000 + 500'000);
  EXPECT_EQ(t.dram_bytes, 8e6);
}

TEST(ClosedForms, OneBlockPaysEveryPhaseOnce) {
  auto machine = support::ideal_machine(1);
  machine.launch_ns = 1000;
  machine.block_start_ns = 300;
  machine.dram_latency_ns = 200;
  auto const t = run(support::make_plan(one_stage(1, 1, 5), machine, Mechanism::stream_order), machine);
  EXPECT_EQ(t.end, (1000 + 300 + 200 + 5000) * 1000);
  ASSERT_EQ(t.tiles.size(), 1U);
  EXPECT_EQ(t.tiles[0].started, 1'000'000);
  EXPECT_EQ(t.tiles[0].posted, t.end);
}

TEST(ClosedForms, LoadAndComputeOfEqualLengthWithTwoSlicesInFlight) {
  auto machine = support::ideal_machine(1);
  machine.dram_gbps = 1000;
  auto p = one_stage(1, 1, 4);
  p.stages[0].operands = {{"a", "x", 4e6, 4e6}};  // 4 us to load, 4 us to compute
  p.stages[0].k_steps = 16;
  p.stages[0].pipeline_stages = 2;
  auto t = run(support::make_plan(p, machine, Mechanism::stream_order), machine);
  EXPECT_EQ(t.end, 6'000'000) << "throughput 2/3 with two slices";
  p.stages[0].k_steps = 1;
  t = run(support::make_plan(p, machine, Mechanism::stream_order), machine);
  EXPECT_EQ(t.end, 8'000'000) << "a single slice loads, then computes";
}

TEST(ClosedForms, WithoutDependencesEveryMechanismIsOneMergedGridOrStreamOrder) {
  auto const machine = support::ideal_machine(4);
  Pipeline p;
  p.name = "independent";
  p.stages = {support::make_stage("first", 6, 1), support::make_stage("second", 6, 1)};
  auto const end = [&](Mechanism m) { return run(support::make_plan(p, machine, m), machine).end; };
  EXPECT_EQ(end(Mechanism::stream_order), 4'000'000);
  EXPECT_EQ(end(Mechanism::pdl), 3'000'000) << "blocks that wait for nothing only leave late";
  EXPECT_EQ(end(Mechanism::wait_kernel), 3'000'000);
  EXPECT_EQ(end(Mechanism::pdl_tiles), 3'000'000);
  EXPECT_EQ(end(Mechanism::fused), 3'000'000);
}

TEST(ClosedForms, SplitsPostOnceEachAndTheConsumerWaitsForAll) {
  auto const machine = support::ideal_machine(6);
  Pipeline p;
  p.name = "splits";
  p.stages = {support::make_stage("gemm1", 1, 1, 1, 3), support::make_stage("gemm2", 2, 1)};
  p.stages[1].operands = {{"a", "gemm1", 0, 0}};
  p.dependences = {support::row_dependence(p, 1, 0)};
  for (auto const mechanism : k_mechanisms) {
    auto const t = run(support::make_plan(p, machine, mechanism), machine);
    EXPECT_EQ(t.end, 2'000'000) << to_text(mechanism);
    EXPECT_EQ(t.tiles.size(), 5U);
  }
}

TEST(ClosedForms, AReusedBufferIsNotOverwrittenBeforeItsReadersAreDone) {
  auto const machine = support::ideal_machine(3);
  Pipeline p;
  p.name = "reuse";
  p.stages = {support::make_stage("slow", 1, 1, 9), support::make_stage("writer", 1, 1, 1)};
  auto plan = support::make_plan(p, machine, Mechanism::wait_kernel);
  auto const map = support::map_of(support::Policy::whole_grid);
  plan.semaphores = {{0, map, "GridSync", 0, 1}};
  plan.reuse_edges = {{1, 0, "x", 0}};
  EXPECT_EQ(run(plan, machine).stages[1].last_end, 9'000'000);
  plan.reuse_edges.clear();
  EXPECT_EQ(run(plan, machine).stages[1].last_end, 1'000'000);
}

TEST(ClosedForms, BytesAreConservedUnderEveryMechanism) {
  auto const machine = support::ideal_machine(7);
  auto v100 = tessera::machine("v100").value();
  auto const p = support::make_gemm_pair({256, 2048, 1024}, {128, 128, 32, 2, 2}, {128, 128, 32, 2, 1});
  double unique = 0;
  for (auto const& stage : p.stages)
    for (auto const& operand : stage.operands)
      if (operand.buffer != "gemm1") unique += operand.unique_bytes;
  unique += 256.0 * 2048 * 2;  // the last output; the first stays in L2
  for (auto const mechanism : k_mechanisms)
    for (bool const reorder : {false, true}) {
      if (mechanism == Mechanism::pdl || mechanism == Mechanism::pdl_tiles) v100.has_pdl = true;
      auto const t = run(support::make_plan(p, v100, mechanism, support::Policy::tile_sync, {reorder}), v100);
      EXPECT_NEAR(t.dram_bytes, unique, 1e-6 * unique) << to_text(mechanism);
      EXPECT_GE(static_cast<double>(t.end), unique / v100.dram_gbps * 1000)
          << "never below the bandwidth floor";
      double flops = 0;
      for (auto const& stage : p.stages) flops += stage.flops_per_block * static_cast<double>(stage.blocks());
      EXPECT_GE(static_cast<double>(t.end),
                flops / (v100.sms * v100.clock_ghz * v100.matrix_flops_per_clock_per_sm) * 1000);
    }
}

}  // namespace
}  // namespace tessera
