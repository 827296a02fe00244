// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/orders.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include "plan/examples.hpp"
#include "support/random_pipeline.hpp"
#include "tessera/describe/tile_relation.hpp"

namespace tessera {
namespace {

using testing::ElementsAre;

TEST(Orders, mlp_is_row_major) {
  for (auto const& order : dependence_orders(examples::mlp(24, 48, 8))) {
    EXPECT_TRUE(order.table.empty());
    EXPECT_EQ(order.name, "row major");
  }
}

TEST(Orders, strided_tiles_become_neighbours) {
  // P(x, y) reads columns x and x + 3; columns 6 to 8 (V) are nobody's and come last.
  auto const orders = dependence_orders(examples::attention_scores(3, 2));
  EXPECT_EQ(orders[0].name, "as needed");
  EXPECT_THAT(orders[0].table, ElementsAre(0, 3, 1, 4, 2, 5, 9, 12, 10, 13, 11, 14, 6, 7, 8, 15, 16, 17));
  EXPECT_TRUE(orders[1].table.empty());
}

TEST(Orders, are_carried_from_the_last_stage_to_the_first) {
  // c reads b's columns from right to left, and b the same tile of a: a must run from right to left too.
  Pipeline pipeline;
  pipeline.stages = {examples::stage("a", {{"x", 4}}), examples::stage("b", {{"x", 4}}),
                     examples::stage("c", {{"x", 4}})};
  examples::depend(pipeline, 1, 0, {{{examples::at(examples::dim(0))}}});
  examples::depend(pipeline, 2, 1, {{{examples::at(TileExpr::constant(3) - examples::dim(0))}}});
  auto const orders = dependence_orders(pipeline);
  EXPECT_THAT(orders[1].table, ElementsAre(3, 2, 1, 0));
  EXPECT_THAT(orders[0].table, ElementsAre(3, 2, 1, 0));
}

TEST(Orders, permutations_are_told_from_what_is_none) {
  EXPECT_TRUE(is_permutation_of({"x", {2, 0, 1}}, 3));
  EXPECT_FALSE(is_permutation_of({"x", {2, 0, 2}}, 3));
  EXPECT_FALSE(is_permutation_of({"x", {2, 0}}, 3));
  EXPECT_FALSE(is_permutation_of({"x", {0, 1, 3}}, 3));
  EXPECT_TRUE(is_permutation_of({}, 3));
}

RC_GTEST_PROP(Orders, of_random_pipelines_are_permutations, ()) {
  auto const pipeline = *random::pipelines();
  auto const orders = dependence_orders(pipeline);
  RC_ASSERT(orders.size() == pipeline.stages.size());
  for (std::size_t s = 0; s < orders.size(); ++s)
    RC_ASSERT(is_permutation_of(orders[s], pipeline.stages[s].tiles()));
}

RC_GTEST_PROP(Orders, the_first_consumer_tiles_needs_come_first, ()) {
  auto const pipeline = *random::pipelines();
  auto const orders = dependence_orders(pipeline);
  for (std::size_t s = 0; s < orders.size(); ++s) {
    Dependence const* first = nullptr;
    for (auto const& d : pipeline.dependences)
      if (d.producer == static_cast<int>(s) && (first == nullptr || d.consumer < first->consumer)) first = &d;
    if (first == nullptr) continue;
    TileRelation const relation(pipeline, *first);
    std::vector<std::int64_t> tiles;
    relation.producers_of(orders[static_cast<std::size_t>(first->consumer)].tile_at(0), tiles);
    for (std::size_t i = 0; i < tiles.size(); ++i)
      RC_ASSERT(orders[s].tile_at(static_cast<std::int64_t>(i)) == tiles[i]);
  }
}

RC_GTEST_PROP(Tickets, every_block_once_and_after_what_it_needs, ()) {
  auto const pipeline = *random::pipelines();
  auto const lag = *rc::gen::inRange<std::int64_t>(0, 20);
  auto const orders = dependence_orders(pipeline);
  auto const tickets = merged_tickets(pipeline, orders, {}, lag);
  if (tickets.empty()) return;
  std::vector<std::vector<std::int64_t>> at(pipeline.stages.size());
  for (std::size_t s = 0; s < at.size(); ++s)
    at[s].assign(static_cast<std::size_t>(pipeline.stages[s].blocks()), -1);
  for (std::size_t t = 0; t < tickets.size(); ++t) {
    auto& place =
        at[static_cast<std::size_t>(tickets[t].stage)].at(static_cast<std::size_t>(tickets[t].position));
    RC_ASSERT(place == -1);
    place = static_cast<std::int64_t>(t);
  }
  // First and last ticket of every tile.
  auto const ticket_of = [&](std::size_t s, std::int64_t tile, bool last) {
    auto const splits = pipeline.stages[s].splits;
    std::int64_t position = 0;
    while (orders[s].tile_at(position) != tile) ++position;
    return at[s][static_cast<std::size_t>(position * splits + (last ? splits - 1 : 0))];
  };
  for (std::size_t s = 0; s < at.size(); ++s)
    for (auto const ticket : at[s]) RC_ASSERT(ticket >= 0);
  for (auto const& d : pipeline.dependences) {
    TileRelation const relation(pipeline, d);
    std::vector<std::int64_t> tiles;
    for (std::int64_t tile = 0; tile < relation.consumer_grid().tiles(); ++tile) {
      relation.producers_of(tile, tiles);
      for (auto const producer : tiles)
        RC_ASSERT(ticket_of(static_cast<std::size_t>(d.producer), producer, true) <
                  ticket_of(static_cast<std::size_t>(d.consumer), tile, false));
    }
  }
}

TEST(Bands, go_column_by_column_within_a_band) {
  auto const stage = examples::stage("s", {{"x", 3}, {"y", 4}});
  auto const order = make_band_order(stage, {2, 1, 1});
  EXPECT_EQ(order.table, (std::vector<std::int32_t>{0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11}));
  EXPECT_EQ(order.name, "bands of 2");
  EXPECT_EQ(order.bands, (Bands{2, 1, 1}));
  auto const columns = make_band_order(stage, {0, 1, 1});
  EXPECT_EQ(columns.table, (std::vector<std::int32_t>{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}));
  EXPECT_EQ(columns.name, "columns");
  auto const rows = make_band_order(stage, {1, 1, 1});
  EXPECT_TRUE(rows.table.empty());  // row major
  EXPECT_EQ(rows.bands, (Bands{1, 1, 1}));
}

TEST(Bands, take_clusters_whole_and_leave_out_what_pads) {
  auto const stage = examples::stage("s", {{"x", 2}, {"y", 3}});
  // A cluster is two rows high: the last holds one row of tiles.
  EXPECT_EQ(make_band_order(stage, {1, 2, 1}).table, (std::vector<std::int32_t>{0, 2, 1, 3, 4, 5}));
  // Two columns wide.
  EXPECT_EQ(make_band_order(examples::stage("s", {{"x", 3}, {"y", 2}}), {0, 1, 2}).table,
            (std::vector<std::int32_t>{0, 1, 3, 4, 2, 5}));
}

RC_GTEST_PROP(Bands, are_permutations, ()) {
  auto const number = [](int least, int most) { return *rc::gen::inRange(least, most + 1); };
  auto const stage = examples::stage("s", {{"x", number(1, 9)}, {"y", number(1, 9)}, {"z", number(1, 3)}});
  auto const order = make_band_order(stage, {number(0, 10), number(1, 3), number(1, 3)});
  RC_ASSERT(is_permutation_of(order, stage.tiles()));
}

}  // namespace
}  // namespace tessera
