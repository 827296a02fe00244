// SPDX-License-Identifier: Apache-2.0
// Blocks that fill up clusters run beside the tiles of theirs, and take no time that is not a tile's.
#include <gmock/gmock.h>

#include "simulate/padding.hpp"
#include "support/plans.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

using testing::ElementsAre;

KernelTiming clusters_of(int rows, int columns) {
  KernelTiming timing{10000, 0, 0, 1, "test"};
  timing.cluster_rows = rows;
  timing.cluster_columns = columns;
  return timing;
}

TEST(Padding, ComesBehindTheLastTileOfItsCluster) {
  StagePlan const planned;
  auto const order = [&](int columns, int rows, KernelTiming const& kernel) {
    return simulation::with_padding(support::make_stage("one", columns, rows), planned, kernel);
  };
  EXPECT_THAT(order(3, 1, clusters_of(2, 1)), ElementsAre(0, ~0, 1, ~1, 2, ~2));
  EXPECT_THAT(order(3, 1, clusters_of(1, 2)), ElementsAre(0, 1, 2, ~2));
  EXPECT_THAT(order(2, 3, clusters_of(2, 1)), ElementsAre(0, 1, 2, 3, 4, ~4, 5, ~5));
  EXPECT_THAT(order(1, 1, clusters_of(2, 2)), ElementsAre(0, ~0, ~0, ~0));
  EXPECT_THAT(order(2, 2, clusters_of(2, 1)), ElementsAre(0, 1, 2, 3));
}

TEST(Padding, IsThereForEverySplit) {
  auto stage = support::make_stage("one", 2, 1);
  stage.splits = 2;
  auto const order = simulation::with_padding(stage, {}, clusters_of(2, 1));
  EXPECT_EQ(static_cast<std::int64_t>(order.size()),
            stage.blocks() + simulation::blocks_that_pad(stage, clusters_of(2, 1)));
  EXPECT_THAT(order, ElementsAre(0, ~0, 1, ~1, 2, ~2, 3, ~3));
}

/// One row of tiles, whose weights a cluster of two shares.
Plan one_row(MachineProfile& machine, int columns) {
  machine.kernels["swapped"] = clusters_of(2, 1);
  Pipeline p;
  p.name = "p";
  p.stages = {support::make_stage("one", columns, 1)};
  p.stages[0].kernel = "swapped";
  p.stages[0].operands = {{"b", "w", 4e6, 4e6 * columns}};
  p.stages[0].operands[0].multicast = 2;
  return support::make_plan(p, machine, Mechanism::stream_order);
}

// Two SMs: a tile and the block that pads its cluster at a time.
TEST(Padding, AGridOfOneRowEndsWithItsLastTile) {
  auto machine = support::ideal_machine(2);
  auto plan = one_row(machine, 4);
  for (int const persistent : {0, 2}) {
    plan.stages[0].persistent_blocks = persistent;
    auto const t = simulate(plan, machine).value();
    ASSERT_EQ(t.tiles.size(), 4U);
    EXPECT_EQ(t.tiles.back().posted, t.end) << persistent;
    EXPECT_EQ(t.end, 40'000'000) << persistent;
    for (auto const& tile : t.tiles) EXPECT_EQ(tile.sm, 0) << persistent;
  }
}

// Of the weights each block of a cluster loads its part, also the one whose row is not there.
TEST(Padding, LoadsItsPartOfWhatAClusterShares) {
  auto machine = support::ideal_machine(2);
  auto const plan = one_row(machine, 4);
  EXPECT_DOUBLE_EQ(simulate(plan, machine).value().dram_bytes, 4 * 4e6);
}

}  // namespace
}  // namespace tessera
