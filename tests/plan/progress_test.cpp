// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/progress.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "support/plans.hpp"
#include "support/stopwatch.hpp"

namespace tessera {
namespace {

using support::ideal_machine;
using support::make_plan;
using support::make_stage;
using support::Policy;

/// gemm1 (x, y) and gemm2 of as many rows, each tile of which reads a row of gemm1.
Pipeline pair(int columns, int consumer_columns, int rows, int splits = 1) {
  Pipeline p;
  p.name = "pair";
  p.stages = {make_stage("gemm1", columns, rows, 1, splits), make_stage("gemm2", consumer_columns, rows)};
  p.stages[1].operands = {{"a", "gemm1", 0, 0}};
  p.stages[1].where = {"pair.cpp", 7};
  p.dependences = {support::row_dependence(p, 1, 0)};
  return p;
}

Plan without_wait_kernel(Pipeline pipeline, MachineProfile const& machine, Policy policy = Policy::row_sync) {
  return make_plan(std::move(pipeline), machine, Mechanism::wait_kernel, policy, {false, true, false});
}

std::string outcome(Plan const& plan, MachineProfile const& machine) {
  auto const proof = prove_progress(plan, machine);
  return proof ? *proof : to_text(proof.error());
}

TEST(Progress, OneStreamIsAlwaysSafe) {
  auto const machine = ideal_machine(4);
  EXPECT_EQ(
      outcome(make_plan(pair(3, 3, 2), machine, Mechanism::stream_order), machine),
      "stream order: a kernel starts only when the one before it is complete, so no block holds an SM while "
      "another one waits for room");
  EXPECT_EQ(outcome(make_plan(pair(3, 5, 2), machine, Mechanism::pdl_tiles), machine),
            "PDL: a block of gemm2 starts only when all 6 blocks of gemm1 have started, as along the whole "
            "chain, so "
            "none of the 10 blocks that may wait can keep an earlier one off an SM");
  EXPECT_EQ(outcome(make_plan(pair(1, 1, 1), machine, Mechanism::pdl), machine),
            "PDL: a block of gemm2 starts only when the only block of gemm1 has started, as along the whole "
            "chain, so "
            "none of the 1 block that may wait can keep an earlier one off an SM");
}

TEST(Progress, WaitKernelsNeedPlacementInLaunchOrder) {
  auto machine = ideal_machine(132);
  auto const plan = make_plan(pair(24, 48, 4), machine, Mechanism::wait_kernel, Policy::row_sync);
  EXPECT_EQ(outcome(plan, machine),
            "wait kernels: gemm2 becomes ready only when gemm1 has started, and ideal places all blocks of "
            "the older "
            "kernel first, so no block waits for one that has no room");
  machine.dispatches_in_launch_order = false;
  EXPECT_EQ(outcome(plan, machine),
            "pair.cpp:7: error E0302: 132 of gemm2's 192 blocks (1 on each) can hold all 132 SMs while "
            "gemm1(0, 0) has not started: gemm2(0, 0) waits for it\n"
            "   ideal gives no guarantee that blocks of an older kernel go first, so blocks of gemm2 may be "
            "placed before those of gemm1\n"
            "   all 192 of gemm2's blocks wait for others; up to 131 would leave room\n"
            "   hint: use PDL or one fused launch, or fewer blocks in gemm2");
}

TEST(Progress, WithoutAWaitKernelTheConsumerMustLeaveRoom) {
  auto const machine = ideal_machine(132);
  // 131 blocks on 132 SMs: one SM is left for gemm1. With 132 there is none.
  EXPECT_EQ(outcome(without_wait_kernel(pair(24, 131, 1), machine), machine),
            "any order of the kernels: at most 131 blocks of gemm2 wait, and it takes 132 (1 on each of 132 "
            "SMs) to "
            "keep gemm1 out");
  EXPECT_EQ(outcome(without_wait_kernel(pair(24, 132, 1), machine), machine),
            "pair.cpp:7: error E0302: all 132 blocks of gemm2 (1 on each) can hold all 132 SMs while "
            "gemm1(0, 0) has not started: gemm2(0, 0) waits for it\n"
            "   gemm2 has no wait kernel, so blocks of gemm2 may be placed before those of gemm1\n"
            "   all 132 of gemm2's blocks wait for others; up to 131 would leave room\n"
            "   hint: give gemm2 a wait kernel, use PDL or one fused launch, or fewer blocks in gemm2");
  EXPECT_EQ(outcome(without_wait_kernel(pair(24, 48, 4), machine), machine),
            "pair.cpp:7: error E0302: 132 of gemm2's 192 blocks (1 on each) can hold all 132 SMs while "
            "gemm1(0, 0) has not started: gemm2(0, 0) waits for it\n"
            "   gemm2 has no wait kernel, so blocks of gemm2 may be placed before those of gemm1\n"
            "   all 192 of gemm2's blocks wait for others; up to 131 would leave room\n"
            "   hint: give gemm2 a wait kernel, use PDL or one fused launch, or fewer blocks in gemm2");
}

/// A cluster needs its blocks' places in one of up to 16 GPCs: with 2 blocks, one free SM in each is too few.
TEST(Progress, AProducerInClustersNeedsMoreRoomThanOneBlock) {
  auto const machine = ideal_machine(132);
  auto const said = [&](int consumers, int cluster) {
    auto const proof =
        prove_progress(without_wait_kernel(pair(24, consumers, 1), machine), machine, {cluster, 1});
    return proof ? *proof : to_text(proof.error());
  };
  EXPECT_THAT(said(131, 1), testing::HasSubstr("at most 131 blocks of gemm2 wait"));
  EXPECT_EQ(
      said(131, 2),
      "error E0302: gemm1 starts in clusters of 2, which need room for all of their blocks in one part of "
      "the GPU, and that blocks that wait always leave it could not be proved\n"
      "   hint: give every later stage a wait kernel, or use PDL or one fused launch");
  EXPECT_THAT(said(116, 2), testing::HasSubstr("error E0302"));
  EXPECT_EQ(said(115, 2),
            "any order of the kernels: the 115 blocks that may wait cannot keep a kernel off all 132 SMs");
  EXPECT_THAT(said(84, 4), testing::HasSubstr("error E0302"));
  EXPECT_THAT(said(83, 4), testing::HasSubstr("the 83 blocks that may wait cannot keep"));
  EXPECT_THAT(said(1, 16), testing::HasSubstr("error E0302"));
}

TEST(Progress, ClustersChangeNothingWhereTheOrderOfLaunchesIsKept) {
  auto machine = ideal_machine(132);
  for (auto const mechanism : {Mechanism::pdl_tiles, Mechanism::wait_kernel}) {
    machine.dispatches_in_launch_order = true;
    auto const plan = make_plan(pair(24, 48, 4), machine, mechanism, Policy::row_sync);
    EXPECT_EQ(prove_progress(plan, machine, {2, 2}).value(), prove_progress(plan, machine).value());
  }
}

TEST(Progress, ConsumerThatFitsBesideItsProducerOnlyHasToFitAtOnce) {
  // Four blocks of gemm2 leave shared memory for a block of gemm1, but a fifth has no slot.
  auto machine = ideal_machine(2);
  machine.threads_per_sm = 2048;
  auto pipeline = pair(4, 4, 2);
  pipeline.stages[0].resources = {1024, 32, 0};
  pipeline.stages[1].resources = {256, 32, (1 << 20) / 4};
  EXPECT_EQ(outcome(without_wait_kernel(pipeline, machine), machine),
            "any order of the kernels: the 8 blocks of gemm2 that may wait fit on the SMs at once and leave "
            "room for gemm1 "
            "on each");
  pipeline.stages[1].grid[0].extent = 5;
  EXPECT_EQ(outcome(without_wait_kernel(pipeline, machine), machine),
            "pair.cpp:7: error E0302: 8 of gemm2's 10 blocks (4 on each) can hold all 2 SMs while gemm2(3, "
            "1) is next and has no room: gemm2(0, 0) waits for gemm1(0, 0), which has to come after it\n"
            "   gemm2 has no wait kernel, so blocks of gemm2 may be placed before those of gemm1\n"
            "   hint: give gemm2 a wait kernel, use PDL or one fused launch, or fewer blocks in gemm2");
}

TEST(Progress, TilesThatWaitForNothingHoldNoSm) {
  // Only the first column of gemm2 reads gemm1; 400 blocks, of which 100 can be stuck.
  auto const machine = ideal_machine(132);
  auto pipeline = pair(100, 4, 100);
  auto const is_first = maximum(TileExpr::constant(1) - TileExpr::dimension(0), TileExpr::constant(0));
  pipeline.dependences[0].accesses[0].ranges[0] = {TileExpr::constant(0), is_first * 100, false};
  EXPECT_EQ(outcome(without_wait_kernel(pipeline, machine), machine),
            "any order of the kernels: at most 100 blocks of gemm2 wait, and it takes 132 (1 on each of 132 "
            "SMs) to "
            "keep gemm1 out");
}

TEST(Progress, AWaitKernelHoldsASlotToo) {
  auto const machine = ideal_machine(1);
  EXPECT_EQ(outcome(make_plan(pair(3, 3, 2), machine, Mechanism::wait_kernel), machine),
            "pair.cpp:7: error E0302: the wait kernel of gemm2 can hold the only SM while gemm1(0, 0) has "
            "not started: the wait kernel of gemm2 waits for the first block of gemm1\n"
            "   wait kernels hold block slots while gemm1 has not started\n"
            "   hint: use PDL or one fused launch");
  EXPECT_TRUE(
      prove_progress(make_plan(pair(3, 3, 2), ideal_machine(2), Mechanism::wait_kernel), ideal_machine(2)));
}

TEST(Progress, FusedLaunchMustBeResident) {
  auto const machine = ideal_machine(4);
  auto plan = make_plan(pair(3, 3, 2), machine, Mechanism::fused);
  EXPECT_EQ(
      outcome(plan, machine),
      "fused: 4 workers resident at once (4 fit), and tickets go stage by stage, so every tile comes after "
      "those that it waits for");
  plan.launches.front().workers = 5;
  EXPECT_EQ(outcome(plan, machine),
            "error E0302: 5 workers of the persistent launch cannot be resident at once: ideal holds 4 (1 on "
            "each of "
            "4 SMs)\n   hint: use at most 4 workers");
  plan.launches.front().workers = 0;
  EXPECT_EQ(outcome(plan, machine),
            "error E0302: gemm1 + gemm2 are in one launch, which has no workers\n"
            "   hint: give it workers, or a launch to each stage");
}

TEST(Progress, FusedTicketsInAWrongOrderNeedEnoughWorkers) {
  auto const machine = ideal_machine(4);
  auto plan = make_plan(pair(3, 3, 1), machine, Mechanism::fused, Policy::row_sync);
  plan.launches.front().tickets = {{1, 0}, {1, 1}, {0, 0}, {0, 1}, {0, 2}, {1, 2}};
  EXPECT_EQ(
      outcome(plan, machine),
      "fused: 4 workers resident at once (4 fit), of which at most 2 can wait at a time for later tickets");
  plan.launches.front().workers = 2;
  EXPECT_EQ(outcome(plan, machine),
            "pair.cpp:7: error E0302: all 2 workers are stuck after ticket 1: gemm2(0, 0) waits for "
            "gemm1(0, 0), which has the later ticket 2\n"
            "   hint: put a tile's producers before it in the tickets, or use more workers");
  plan.launches.front().tickets.pop_back();
  plan.launches.front().workers = 3;
  EXPECT_EQ(outcome(plan, machine),
            "error E0302: there are 5 tickets for 6 blocks\n"
            "   hint: leave the tickets out to go stage by stage, or name every block once");
  plan.launches.front().tickets.push_back({1, 0});
  EXPECT_EQ(outcome(plan, machine),
            "error E0302: position 0 of gemm2 has two tickets\n"
            "   hint: leave the tickets out to go stage by stage, or name every block once");
  plan.launches.front().tickets.back() = {1, 3};
  EXPECT_EQ(outcome(plan, machine),
            "error E0302: position 3 of gemm2 is not one of its blocks\n"
            "   hint: leave the tickets out to go stage by stage, or name every block once");
}

TEST(Progress, StageThatFitsNoSm) {
  auto machine = ideal_machine(4);
  auto plan = make_plan(pair(3, 3, 2), machine, Mechanism::stream_order);
  plan.pipeline.stages[1].resources = {1024, 65, 0};
  EXPECT_EQ(outcome(plan, machine),
            "pair.cpp:7: error E0301: gemm2 does not fit on an SM: a block of 1024 threads with 65 registers "
            "each needs 73728 registers; an SM of ideal has 65536\n"
            "   hint: choose a smaller tile or fewer pipeline stages for this kernel");
  plan.pipeline.stages[1].resources = {2048, 32, 0};
  EXPECT_EQ(outcome(plan, machine),
            "pair.cpp:7: error E0301: gemm2 does not fit on an SM: a block needs 2048 threads; an SM of "
            "ideal has 1024\n"
            "   hint: choose a smaller tile or fewer pipeline stages for this kernel");
  plan.pipeline.stages[1].resources = {256, 32, 2'000'000};
  EXPECT_EQ(outcome(plan, machine),
            "pair.cpp:7: error E0301: gemm2 does not fit on an SM: a block needs 2000000 bytes of shared "
            "memory; ideal gives one block at most 1048576\n"
            "   hint: choose a smaller tile or fewer pipeline stages for this kernel");
  plan = make_plan(pair(3, 3, 2), machine, Mechanism::fused);
  plan.launches.front().workers = 1;
  plan.pipeline.stages[0].resources = {512, 64, 0};
  plan.pipeline.stages[1].resources = {256, 200, 0};
  EXPECT_EQ(outcome(plan, machine),
            "error E0301: a fused launch does not fit on an SM, since each of its blocks needs the most that "
            "any stage needs: a block of 512 threads with 200 registers each needs 102400 registers; an SM "
            "of ideal has 65536\n"
            "   hint: choose smaller tiles, or a mechanism with a kernel for each stage");
}

TEST(Progress, WaitsGoToEarlierStages) {
  auto const machine = ideal_machine(4);
  for (auto const mechanism : {Mechanism::pdl_tiles, Mechanism::wait_kernel, Mechanism::fused}) {
    auto plan = make_plan(pair(3, 3, 2), machine, mechanism, Policy::row_sync);
    plan.pipeline.dependences[0].where = {"pair.cpp", 9};
    plan.semaphores[0].producer = 1;
    EXPECT_EQ(outcome(plan, machine),
              "pair.cpp:9: error E0302: gemm2 waits for semaphores that gemm2 posts to, which does not come "
              "before it\n"
              "   hint: a stage can wait for earlier stages only");
  }
  auto plan = make_plan(pair(3, 3, 2), machine, Mechanism::fused, Policy::whole_grid);
  plan.reuse_edges.push_back({0, 0, "gemm1", 0});
  EXPECT_EQ(outcome(plan, machine),
            "error E0302: gemm1 waits for semaphores that gemm1 posts to, which does not come before it\n"
            "   hint: a stage can wait for earlier stages only");
}

TEST(Progress, ThreeStagesCountTogether) {
  // Neither gemm2 nor gemm3 alone can fill the machine; together they can.
  auto const machine = ideal_machine(8);
  auto pipeline = pair(3, 5, 1);
  pipeline.stages.push_back(make_stage("gemm3", 4, 1));
  pipeline.stages[2].operands = {{"a", "gemm2", 0, 0}};
  pipeline.dependences.push_back(support::row_dependence(pipeline, 2, 1));
  EXPECT_EQ(outcome(without_wait_kernel(pipeline, machine), machine),
            "error E0302: 4 of gemm2's 5 blocks (at most 1 on one) and all 4 blocks of gemm3 (at most 1 on "
            "one) can hold all 8 SMs while gemm2(4, 0) has not started: gemm3(0, 0) waits for it\n"
            "   gemm3 has no wait kernel, so blocks of gemm3 may be placed before those of gemm2\n"
            "   hint: give gemm3 a wait kernel, use PDL or one fused launch, or fewer blocks in gemm3");
  pipeline.stages[2].grid[0].extent = 2;
  EXPECT_EQ(outcome(without_wait_kernel(pipeline, machine), machine),
            "any order of the kernels: the 7 blocks that may wait cannot keep a kernel off all 8 SMs");
}

TEST(Progress, CountsTheBlocksOfAPersistentGrid) {
  auto const machine = ideal_machine(8);
  auto plan = make_plan(pair(6, 8, 2), machine, Mechanism::pdl_tiles, Policy::row_sync);
  for (auto& stage : plan.stages) stage.persistent_blocks = 8;
  EXPECT_EQ(
      outcome(plan, machine),
      "PDL: a block of gemm2 starts only when all 8 blocks of gemm1 have started, as along the whole chain, "
      "so none of the 8 blocks that may wait can keep an earlier one off an SM");
  auto streams = make_plan(pair(6, 8, 2), machine, Mechanism::wait_kernel, Policy::row_sync);
  streams.stages[1].persistent_blocks = 8;
  EXPECT_EQ(outcome(streams, machine),
            "pair.cpp:7: error E0302: gemm2 runs as a persistent grid of 8 blocks beside other launches, and "
            "that those find "
            "room could not be proved\n"
            "   hint: give one block to each tile, or start the launches early");
  streams.stages[1].persistent_blocks = 16;  // as many as tiles
  EXPECT_EQ(outcome(streams, machine).substr(0, 13), "wait kernels:");
}

TEST(Progress, IsCheap) {
  auto const machine = ideal_machine(132);
  for (auto const mechanism : {Mechanism::wait_kernel, Mechanism::pdl_tiles, Mechanism::fused})
    for (bool const w : {false, true})
      for (auto const policy : {Policy::tile_sync, Policy::row_sync}) {
        auto plan = make_plan(pair(24, 72, 32), machine, mechanism, policy, {false, w, false});
        if (mechanism == Mechanism::fused && w)
          for (int s = 0; s < 2; ++s)
            for (std::int32_t b = 0; b < plan.pipeline.stages[static_cast<std::size_t>(s)].blocks(); ++b)
              plan.launches.front().tickets.push_back({s, b});
        // 1 ms in a release build; sanitizers are slower.
        EXPECT_LT(support::least_seconds(0.02, [&] { (void)prove_progress(plan, machine); }), 0.02)
            << to_text(mechanism);
      }
}

}  // namespace
}  // namespace tessera
