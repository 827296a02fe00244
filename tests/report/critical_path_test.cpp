// SPDX-License-Identifier: Apache-2.0
#include "report/critical_path.hpp"

#include <gmock/gmock.h>

#include "report/roof.hpp"
#include "report/samples.hpp"

namespace tessera {
namespace {

using report::HeldBy;

std::vector<std::pair<int, std::int64_t>> tiles_of(std::vector<report::PathBlock> const& path) {
  std::vector<std::pair<int, std::int64_t>> out;
  for (auto const& block : path) out.emplace_back(block.tile->stage, block.tile->tile);
  return out;
}

/// Figure 1's chain: the second stage's last row waits for the first one's last tile, which waited for a
/// place.
TEST(CriticalPath, GoesFromTheLastBlockBackToTheFirst) {
  auto const plan = sample_plan();
  auto const timeline = sample_tiles();
  auto const path = report::critical_path(plan, timeline);
  ASSERT_GE(path.size(), 2u);
  EXPECT_EQ(path.front().held_by, HeldBy::nothing);
  EXPECT_EQ(path.back().tile->posted, timeline.end);
  for (std::size_t i = 1; i < path.size(); ++i) {
    EXPECT_LE(path[i - 1].tile->posted, path[i].tile->loaded) << i;
    EXPECT_NE(path[i].held_by, HeldBy::nothing) << i;
  }
}

/// What holds a block is what ended last: its place, a tile that it reads, or a whole stage.
TEST(CriticalPath, NamesWhatHeldABlock) {
  auto plan = sample_plan();
  auto timeline = sample_timeline({}, "wait kernel", 3'000'000);
  // Row 0 of the second stage reads tiles 0 to 2 of the first. Tile 1 is late, on another SM.
  timeline.tiles = {sample_block(0, 0, 0, 0, 500'000), sample_block(0, 1, 1, 0, 1'500'000),
                    sample_block(0, 2, 2, 0, 600'000), sample_block(0, 3, 3, 0, 1'700'000),
                    sample_block(1, 0, 0, 500'000, 3'000'000, 1'000'000)};
  EXPECT_EQ(tiles_of(report::critical_path(plan, timeline)),
            (std::vector<std::pair<int, std::int64_t>>{{0, 1}, {1, 0}}));
  EXPECT_EQ(report::critical_path(plan, timeline).back().held_by, HeldBy::tiles);
  // Without semaphores it waits for the whole stage: for tile 3, which it does not read.
  plan.dependences[0].semaphore_set = -1;
  timeline.tiles.back().ready += 300'000;
  EXPECT_EQ(tiles_of(report::critical_path(plan, timeline)),
            (std::vector<std::pair<int, std::int64_t>>{{0, 3}, {1, 0}}));
  EXPECT_EQ(report::critical_path(plan, timeline).back().held_by, HeldBy::stage);
  // And if its place was free last, for its place.
  timeline.tiles[0].posted = 1'800'000;
  EXPECT_EQ(report::critical_path(plan, timeline).back().held_by, HeldBy::place);
}

TEST(CriticalPath, OfAnotherPlansTimelineThereIsNone) {
  auto timeline = sample_tiles();
  timeline.stages.pop_back();
  EXPECT_TRUE(report::critical_path(sample_plan(), timeline).empty());
  EXPECT_TRUE(report::critical_path(sample_plan(), {}).empty());
}

TEST(StageRates, AreOverTheTimeThatTheStageWorks) {
  auto plan = sample_plan();
  auto& stage = plan.pipeline.stages[1];
  stage.flops_per_block = 2e6, stage.store_bytes_per_block = 1000;
  stage.operands[0].unique_bytes = 4000;
  plan.machine_values.emplace();
  plan.machine_values->sms = 4, plan.machine_values->clock_ghz = 1;
  plan.machine_values->matrix_flops_per_clock_per_sm = 1000;
  plan.machine_values->dram_gbps = 20;
  auto timeline = sample_timeline({}, "wait kernel", 5'000'000);
  timeline.stages[1].last_end = 5'000'000;
  timeline.tiles = {sample_block(1, 0, 0, 0, 5'000'000, 900'000)};  // waits until 1 us
  plan.stages[1].reorder_loads = false;
  auto const rates = report::stage_rates(plan, timeline, 1);
  EXPECT_DOUBLE_EQ(rates.flops, 6 * 2e6);
  EXPECT_DOUBLE_EQ(rates.bytes, 6 * 1000 + 4000);
  EXPECT_DOUBLE_EQ(rates.ns, 4000);
  EXPECT_DOUBLE_EQ(rates.tflops(), 3);
  EXPECT_DOUBLE_EQ(rates.gbps(), 2.5);
  EXPECT_TRUE(!rates.by_memory);  // 3000 ns of 4000; the memory 500
  EXPECT_DOUBLE_EQ(rates.of_roof, 0.75);
  // What loads before it waits, begins then.
  plan.stages[1].reorder_loads = true;
  EXPECT_DOUBLE_EQ(report::stage_rates(plan, timeline, 1).ns, 5000);
}

}  // namespace
}  // namespace tessera
