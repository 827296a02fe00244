// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "tessera/sync.cuh"

namespace tessera {
namespace {

constexpr TileGrid k_grid{3, {7, 5, 2, 1}};

template <class Policy>
void expect_consistent() {
  static_assert(RequirePolicy<Policy>::met);
  Policy const policy;
  std::map<long long, long long> members;
  for (long long tile = 0; tile < k_grid.tiles(); ++tile)
    ++members[policy.semaphore_of(k_grid, tile_of(k_grid, tile))];
  EXPECT_EQ(static_cast<long long>(members.size()), policy.count(k_grid));
  EXPECT_EQ(members.begin()->first, 0);
  EXPECT_EQ(members.rbegin()->first, policy.count(k_grid) - 1);
  for (auto const& [semaphore, count] : members) EXPECT_EQ(policy.tiles_of(k_grid, semaphore), count);
}

struct ThirdsTable {
  static constexpr IntTable<70> table() {
    IntTable<70> result{};
    for (int i = 0; i < 70; ++i) result.values[i] = i * i % 3 == 1 ? 1 : 0;
    return result;
  }
};

TEST(Policies, EveryTileHasOneSemaphoreAndTheCountsAgree) {
  expect_consistent<TileSync>();
  expect_consistent<RowSync>();
  expect_consistent<StridedSync<3>>();
  expect_consistent<StridedSync<9>>();
  expect_consistent<BatchedRowSync<2>>();
  expect_consistent<GridSync>();
  expect_consistent<ProductPolicy<Block<4>, Stride<2>, All>>();
  expect_consistent<TablePolicy<ThirdsTable>>();
}

TEST(Policies, NamedOnesAreWhatTheirNamesSay) {
  EXPECT_EQ(RowSync{}.semaphore_of(k_grid, {{6, 3, 1}}), 3 + 5 * 1);
  EXPECT_EQ(RowSync{}.tiles_of(k_grid, 4), 7);
  EXPECT_EQ(StridedSync<3>{}.semaphore_of(k_grid, {{4, 0, 0}}), 1);
  EXPECT_EQ(StridedSync<3>{}.tiles_of(k_grid, 0), 3);
  EXPECT_EQ(BatchedRowSync<2>{}.semaphore_of(k_grid, {{0, 4, 0}}), 2);
  EXPECT_EQ(BatchedRowSync<2>{}.tiles_of(k_grid, 2), 7);
  EXPECT_EQ(GridSync{}.tiles_of(k_grid, 0), 70);
}

TEST(DimensionMaps, NameTheIndicesOfARangeOnceEach) {
  for (auto const grouping : {Grouping::each, Grouping::all, Grouping::block, Grouping::stride})
    for (int width = 1; width <= 6; ++width)
      for (int begin = 0; begin < 9; ++begin)
        for (int end = begin + 1; end <= 9; ++end) {
          DimensionMap const map{grouping, width};
          std::set<int> expected;
          for (int c = begin; c < end; ++c) expected.insert(map.index(c));
          std::set<int> found;
          for (int i = 0; i < map.count_in(begin, end); ++i)
            EXPECT_TRUE(found.insert(map.index_in(begin, i)).second);
          EXPECT_EQ(found, expected);
        }
}

TEST(Orders, ClosedFormsAndTables) {
  using ColumnMajor = DigitOrder<Digit<4, 6>, Digit<6, 1>>;  // a 6 x 4 grid, columns first
  static_assert(RequireOrder<ColumnMajor>::met && RequireOrder<RowMajor>::met);
  static_assert(ColumnMajor::tile_at(0) == 0 && ColumnMajor::tile_at(1) == 6 && ColumnMajor::tile_at(4) == 1);
  std::set<long long> tiles;
  for (int position = 0; position < 24; ++position) tiles.insert(ColumnMajor::tile_at(position));
  EXPECT_EQ(tiles.size(), 24u);
  EXPECT_EQ(TableOrder<ThirdsTable>::tile_at(4), 1);
}

TEST(Boxes, AreCutToTheGrid) {
  constexpr TileBox box = cut_box(k_grid, {-3, 99}, {4, 9}, {1, 1});
  EXPECT_EQ(box.begin[0], 0);
  EXPECT_EQ(box.end[0], 7);
  EXPECT_EQ(box.end[1], 5);
  EXPECT_TRUE(box.empty());
  EXPECT_FALSE(cut_box(k_grid, {0, 1}).empty());
  EXPECT_TRUE(cut_box(k_grid, {1LL << 40, 1LL << 41}).empty());
  EXPECT_EQ(floor_divide(-1, 2), -1);
  EXPECT_EQ(floor_modulo(-1, 2), 1);
  EXPECT_EQ(floor_divide(-4, 2), -2);
}

}  // namespace
}  // namespace tessera
