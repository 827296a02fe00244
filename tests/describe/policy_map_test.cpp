// SPDX-License-Identifier: Apache-2.0
#include "tessera/describe/policy_map.hpp"

#include <gtest/gtest.h>

#include <map>

#include "tessera/describe/dsl.hpp"

namespace tessera {
namespace {

TileGrid grid(int columns, int rows) { return {2, {columns, rows, 1, 1}}; }

/// Tiles of each semaphore, tile by tile.
std::map<long long, long long> counted(PolicyMap const& map, TileGrid const& grid) {
  std::map<long long, long long> tiles;
  for (long long t = 0; t < grid.tiles(); ++t) ++tiles[map.semaphore_of(grid, tile_of(grid, t))];
  return tiles;
}

void expect_counts_agree(PolicyMap const& map, TileGrid const& grid) {
  auto const tiles = counted(map, grid);
  ASSERT_EQ(static_cast<long long>(tiles.size()), map.count(grid));
  for (auto const& [semaphore, count] : tiles) EXPECT_EQ(map.tiles_of(grid, semaphore), count) << semaphore;
}

TEST(PolicyMap, TwoRowsShareASemaphore) {
  auto const policy = rows(2);
  auto const six = grid(3, 5);
  expect_counts_agree(policy.map, six);
  EXPECT_EQ(policy.map.count(six), 3);
  EXPECT_EQ(policy.map.tiles_of(six, 2), 3);  // the last row is alone
}

TEST(PolicyMap, TableSaysTheSameAsTheProductThatItWasMadeOf) {
  auto const g = grid(5, 4);
  for (auto const& policy : {each_tile(), rows(), rows(3), strided(2), whole_grid(),
                             product({{Grouping::block, 2}, {Grouping::stride, 3}})}) {
    auto const table = table_map(g, [&](Tile const& tile) { return policy.map.semaphore_of(g, tile); });
    expect_counts_agree(policy.map, g);
    expect_counts_agree(table, g);
    EXPECT_EQ(counted(table, g), counted(policy.map, g));
    EXPECT_EQ(problem_of(table, g), "");
  }
}

TEST(PolicyMap, AFunctionThatIsNoProduct) {
  auto const g = grid(4, 4);
  auto const diagonal = table_map(g, [](Tile const& tile) { return tile.at[0] < tile.at[1] ? 0 : 1; });
  expect_counts_agree(diagonal, g);
  EXPECT_EQ(diagonal.tiles_of(g, 0), 6);
  EXPECT_EQ(problem_of(diagonal, g), "");
  EXPECT_EQ(problem_of(diagonal, grid(4, 3)), "its table has 16 entries, and the producer 12 tiles");
}

TEST(PolicyMap, DslNamesAPolicyForEachProducer) {
  PipelineBuilder mlp("mlp");
  auto [x, y] = mlp.dims("x", "y");
  auto gemm1 = mlp.stage("gemm1", {x = 6, y = 4});
  auto gemm2 = mlp.stage("gemm2", {x = 8, y = 4});
  mlp.depends(gemm2(x, y), gemm1(all(x), y)).policy(rows(2));
  auto const built = mlp.build();
  ASSERT_TRUE(built);
  ASSERT_TRUE(built->dependences[0].policy);
  EXPECT_EQ(built->dependences[0].policy->map, rows(2).map);

  mlp.depends(gemm2(x, y), gemm1(x, y)).through("b").policy("by column pairs", [](Tile const& tile) {
    return tile.at[0] / 2;
  });
  auto const again = mlp.build();
  ASSERT_TRUE(again);
  auto const& policy = *again->dependences[1].policy;
  EXPECT_EQ(policy.name, "by column pairs");
  EXPECT_EQ(policy.map.count(grid(6, 4)), 3);
  EXPECT_EQ(policy.map.tiles_of(grid(6, 4), 0), 8);
}

}  // namespace
}  // namespace tessera
