// SPDX-License-Identifier: Apache-2.0
// The text of a hang report, from semaphore values as a GPU would leave them.
#include "tessera/run/stall.hpp"
#include "tessera/sync/data_token.cuh"

#include <gtest/gtest.h>

#include "support/plans.hpp"

namespace tessera {
namespace {

using support::Policy;

Plan plan_of(Policy policy, int splits = 1) {
  Pipeline p;
  p.name = "mlp";
  p.stages = {support::make_stage("gemm1", 24, 4, 1, splits), support::make_stage("gemm2", 48, 4)};
  p.dependences = {support::row_dependence(p, 1, 0)};
  return support::make_plan(p, support::ideal_machine(132), Mechanism::pdl_tiles, policy);
}

StallRecord record_of(int stage, long long tile, long long semaphore, unsigned seen, unsigned expected) {
  StallRecord r;
  r.state = 2;
  r.stage = stage;
  r.tile = tile;
  r.semaphore = semaphore;
  r.seen = seen;
  r.expected = expected;
  r.waited_ns = 2'000'000'000;
  return r;
}

TEST(StallReport, RowSyncNamesTheRowAndSaysThatItCannotNameTheTiles) {
  auto const plan = plan_of(Policy::row_sync);
  // The third launch: 48 posts of the two before.
  std::vector<unsigned> const semaphores = {72, 72, 72, 48 + 22};
  EXPECT_EQ(
      to_text(stall_report(plan, record_of(1, 5 + 48 * 3, 3, 48 + 22, 72), semaphores)),
      "error E0520: gemm2 tile (5, 3) waits for row 3 of gemm1: 22 of 24 posted\n"
      "   RowSync counts 24 tiles together: it does not say which are missing\n"
      "   semaphore 3: seen 70, expected 72, in launch 3; gave up after 2 s\n"
      "   hint: see that every block of the producer calls start() and post() once, the last stage's too; if "
      "blocks are only slow, raise the deadline");
}

TEST(StallReport, ARowWithNoPostAtAllIsMissingWhole) {
  auto const plan = plan_of(Policy::row_sync);
  std::vector<unsigned> const semaphores = {24, 24, 24, 0};
  EXPECT_EQ(stall_report(plan, record_of(1, 48 * 3, 3, 0, 24), semaphores).message,
            "gemm2 tile (0, 3) waits for row 3 of gemm1: 0 of 24 posted; missing gemm1(0, 3), gemm1(1, 3), "
            "gemm1(2, "
            "3), gemm1(3, 3), gemm1(4, 3), gemm1(5, 3), gemm1(6, 3), gemm1(7, 3) and 16 more");
}

TEST(StallReport, TileSyncNamesEveryMissingTileThatTheConsumerReads) {
  auto const plan = plan_of(Policy::tile_sync);
  std::vector<unsigned> semaphores(96, 1);
  semaphores[24 * 3 + 17] = 0;
  semaphores[24 * 3 + 20] = 0;
  semaphores[5] = 0;  // another row: not what this tile waits for
  EXPECT_EQ(
      stall_report(plan, record_of(1, 5 + 48 * 3, 24 * 3 + 17, 0, 1), semaphores).message,
      "gemm2 tile (5, 3) waits for gemm1(17, 3) and 23 more semaphores of gemm1: 22 of 24 posted; missing "
      "gemm1(17, 3), gemm1(20, 3)");
}

TEST(StallReport, AFinerSetOfTheSameProducerTellsWhichTilesAreMissing) {
  auto plan = plan_of(Policy::row_sync);
  SemaphoreSet fine{0, {}, "TileSync", 4, 96};
  plan.semaphores.push_back(fine);
  std::vector<unsigned> semaphores(100, 1);
  for (int row = 0; row < 4; ++row) semaphores[static_cast<std::size_t>(row)] = 24;
  semaphores[1] = 23;
  semaphores[4 + 24 + 9] = 0;
  EXPECT_EQ(stall_report(plan, record_of(1, 48, 1, 23, 24), semaphores).message,
            "gemm2 tile (0, 1) waits for row 1 of gemm1: 23 of 24 posted; missing gemm1(9, 1)");
}

TEST(StallReport, SplitsCountAsPosts) {
  auto const plan = plan_of(Policy::row_sync, 2);
  std::vector<unsigned> const semaphores = {48, 48, 47, 48};
  EXPECT_EQ(stall_report(plan, record_of(1, 48 * 2, 2, 47, 48), semaphores).message,
            "gemm2 tile (0, 2) waits for row 2 of gemm1: 47 of 48 posted");
}

TEST(StallReport, PostsThatCameLateAreSaidToBeLate) {
  auto const plan = plan_of(Policy::tile_sync);
  std::vector<unsigned> const semaphores(96, 1);
  auto const report = stall_report(plan, record_of(1, 0, 0, 0, 1), semaphores);
  EXPECT_EQ(report.notes.front(),
            "all posts came after the deadline: blocks are slow, or the deadline is short");
}

TEST(StallReport, WaitKernelAndUnknownSemaphore) {
  auto const plan = plan_of(Policy::row_sync);
  EXPECT_EQ(stall_report(plan, record_of(1, 0, k_no_semaphore, 96, 97), {}).message,
            "the wait kernel before gemm2 waits for the first block of gemm1: 96 blocks started, in all "
            "launches, 97 "
            "expected");
  EXPECT_EQ(stall_report(plan, record_of(1, 0, 77, 0, 1), {}).message,
            "gemm2 tile (0, 0) waits for semaphore 77, which no stage posts to");
}

TEST(StallReport, DataThatCarriesItsToken) {
  auto const report = stall_report(plan_of(Policy::row_sync), record_of(1, 50, k_data_token, 2, 3), {});
  EXPECT_EQ(report.message,
            "gemm2 tile (2, 1) waits for data that a stage before it writes: token 2, expected 3");
  EXPECT_EQ(report.suggestion,
            "see that every item of the buffer is written once in every launch, and that all blocks can run "
            "at once");
}

TEST(SemaphoreName, SaysWhichTiles) {
  auto const plan = plan_of(Policy::row_sync);
  SemaphoreSet set = plan.semaphores[0];
  EXPECT_EQ(semaphore_name(plan, set, 2), "row 2 of gemm1");
  set.map.dimension[0] = {Grouping::each, 1};
  EXPECT_EQ(semaphore_name(plan, set, 24 * 2 + 3), "gemm1(3, 2)");
  set.map.dimension[0] = {Grouping::block, 10};
  EXPECT_EQ(semaphore_name(plan, set, 3 * 1 + 2), "gemm1(20:24, 1)");
  set.map.dimension[0] = {Grouping::stride, 8};
  EXPECT_EQ(semaphore_name(plan, set, 5), "gemm1(5::8, 0)");
  set.map.dimension[0] = {Grouping::all, 1};
  set.map.dimension[1] = {Grouping::all, 1};
  EXPECT_EQ(semaphore_name(plan, set, 0), "gemm1(*, *)");
}

}  // namespace
}  // namespace tessera
