// SPDX-License-Identifier: Apache-2.0
#include "integer_sets/tile_map.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "check/brute_force.hpp"
#include "support/random_pipeline.hpp"

namespace tessera {
namespace {

using integer_sets::Keep;
using integer_sets::Limit;
using integer_sets::PointPair;
using integer_sets::TileMap;

TileExpr number(std::int64_t n) { return TileExpr::constant(n); }
TileExpr const x = TileExpr::dimension(0);
TileExpr const y = TileExpr::dimension(1);

std::vector<Access> rows(std::int64_t columns) {
  return {{{{number(0), number(columns)}, {y, y + number(1)}}}};
}

TEST(TileMap, NamesTheFirstTileOutsideAndCountsThem) {
  Limit const limit(20'000);
  auto const outside = TileMap::reads(limit, {2, {48, 8, 1, 1}}, {2, {20, 8, 1, 1}}, rows(24), Keep::outside);
  ASSERT_FALSE(outside.gave_up());
  EXPECT_EQ(outside.first(), (PointPair{{0, 0, 0, 0}, {20, 0, 0, 0}}));
  EXPECT_EQ(outside.count_targets(), 32);
}

TEST(TileMap, FirstIsInLaunchOrder) {
  Limit const limit(20'000);
  TileGrid const grid{2, {4, 4, 1, 1}};
  // x + y > 4: launch order reaches (2, 3) after (3, 2).
  auto const late = TileMap::reads(limit, grid, {1, {5, 1, 1, 1}},
                                   std::vector<Access>{{{{x + y, x + y + number(1)}}}}, Keep::outside);
  EXPECT_EQ(late.first(), (PointPair{{3, 2, 0, 0}, {5, 0, 0, 0}}));
}

TEST(TileMap, NeedsNoMoreTimeForHugeGrids) {
  Limit const limit(20'000);
  TileGrid const grid{2, {2'000'000'000, 2'000'000'000, 1, 1}};
  auto const outside = TileMap::reads(limit, grid, grid, rows(2'000'000'010), Keep::outside);
  EXPECT_EQ(outside.first(), (PointPair{{0, 0, 0, 0}, {2'000'000'000, 0, 0, 0}}));
  EXPECT_EQ(outside.count_targets(), 20'000'000'000);
}

TEST(TileMap, ChainsUnitesAndSubtracts) {
  Limit const limit(20'000);
  TileGrid const grid{2, {6, 4, 1, 1}};
  auto const row = TileMap::reads(limit, grid, grid, rows(6), Keep::inside);
  auto const same = TileMap::same_tile(limit, grid);
  EXPECT_EQ(same.then(row).without(row).empty(), true);
  EXPECT_EQ(row.then(row).without(row).empty(), true);
  EXPECT_EQ(row.without(same).first(), (PointPair{{0, 0, 0, 0}, {1, 0, 0, 0}}));
  EXPECT_EQ(TileMap::everything(limit, grid, grid).without(row.inverse()).first(),
            (PointPair{{0, 0, 0, 0}, {0, 1, 0, 0}}));
  EXPECT_EQ(TileMap::none(limit, grid, grid).united(same).without(same).empty(), true);
  EXPECT_EQ(TileMap::none(limit, grid, grid).first(), std::nullopt);
}

// isl 0.25 coalesces these two accesses to the whole box, which has (2) -> (1) in it.
TEST(TileMap, UnionIsNotRounded) {
  Limit const limit(20'000);
  TileGrid const three{1, {3, 1, 1, 1}};
  TileGrid const two{1, {2, 1, 1, 1}};
  std::vector<Access> const accesses{{{{number(0), modulo(x, 2) + number(1)}}}, {{{x, x + number(2), true}}}};
  auto const missing = TileMap::everything(limit, three, two)
                           .without(TileMap::reads(limit, three, two, accesses, Keep::inside));
  EXPECT_EQ(missing.first(), (PointPair{{2, 0, 0, 0}, {1, 0, 0, 0}}));
}

TEST(TileMap, GivesUpAtTheLimitAndStaysGivenUp) {
  Limit const limit(50);
  TileGrid const grid{3, {100, 100, 100, 1}};
  auto const z = TileExpr::dimension(2);
  auto const twist = modulo(x * 3 + y * 5 + z * 7, 97);
  std::vector<Access> const accesses{
      {{{twist, twist + number(5), true},
        {floor_div(x + z, 3), floor_div(x + z, 2)},
        {y, y + number(3), true}}},
      {{{y, y + number(9), true}, {twist, twist + number(1)}, {minimum(x, z), maximum(x, z)}}}};
  auto const map = TileMap::reads(limit, grid, grid, accesses, Keep::inside);
  auto const twice = map.then(map).without(map).united(map);
  EXPECT_TRUE(twice.gave_up());
  EXPECT_TRUE(twice.inverse().then(twice).gave_up());
  EXPECT_EQ(twice.empty(), std::nullopt);
  EXPECT_EQ(twice.first(), std::nullopt);
  EXPECT_EQ(twice.count_targets(), std::nullopt);
}

TEST(TileMap, AgreesWithEnumeration) {
  EXPECT_TRUE(rc::check("outside: first pair and count; inside: all pairs", [] {
    auto const pipeline = *random::pipelines({.max_extent = 4, .valid = false, .max_tiles = 30});
    for (auto const& dependence : pipeline.dependences) {
      Limit const limit(1'000'000);
      auto const consumer = brute_force::stage_at(pipeline, dependence.consumer).tile_grid();
      auto const producer = brute_force::stage_at(pipeline, dependence.producer).tile_grid();
      auto const expected = brute_force::outside(pipeline, dependence);
      auto const outside = TileMap::reads(limit, consumer, producer, dependence.accesses, Keep::outside);
      RC_ASSERT(!outside.gave_up());
      RC_ASSERT(outside.empty() == !expected.has_value());
      RC_ASSERT(outside.count_targets() == (expected ? expected->missing : 0));
      if (expected) {
        auto const first = outside.first();
        RC_ASSERT(first.has_value());
        auto const tile = tile_of(consumer, expected->consumer_tile);
        RC_ASSERT(std::equal(first->from.begin(), first->from.end(), std::begin(tile.at)));
        RC_ASSERT(std::equal(first->to.begin(), first->to.end(), expected->producer.rbegin()));
      }

      std::set<std::int64_t> read;
      for (auto const& tiles : brute_force::producers(pipeline, dependence))
        read.insert(tiles.begin(), tiles.end());
      auto const inside = TileMap::reads(limit, consumer, producer, dependence.accesses, Keep::inside);
      RC_ASSERT(inside.count_targets() == static_cast<std::int64_t>(read.size()));
    }
  }));
}

}  // namespace
}  // namespace tessera
