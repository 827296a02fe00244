// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/policies.hpp"

#include <gmock/gmock.h>

#include "plan/examples.hpp"
#include "support/plans.hpp"
#include "tessera/check/check.hpp"
#include "tessera/plan/build.hpp"
#include "tessera/plan/plan_json.hpp"

namespace tessera {
namespace {

using examples::all, examples::at, examples::depend, examples::dim, examples::stage;
using testing::ElementsAre;

std::vector<std::string> names(Pipeline const& pipeline, int dependence = 0) {
  std::vector<std::string> result;
  for (auto const& policy : generate_policies(pipeline, dependence)) result.push_back(policy.name);
  return result;
}

TEST(Policies, gpt3_mlp_has_exactly_tile_and_row) {
  EXPECT_THAT(names(examples::mlp(24, 48, 8)), ElementsAre("TileSync", "RowSync"));
  EXPECT_THAT(names(examples::mlp(24, 48, 1)), ElementsAre("TileSync", "RowSync"));
}

TEST(Policies, mlp_costs) {
  auto const policies = generate_policies(examples::mlp(24, 48, 4, 2, 3), 0);
  ASSERT_EQ(policies.size(), 2u);
  EXPECT_EQ(policies[0].semaphores, 96);
  EXPECT_EQ(policies[0].waits, 48 * 4 * 3 * 24);
  EXPECT_EQ(policies[0].posts_per_value, 2);
  EXPECT_EQ(policies[0].tiles_awaited, 24);
  EXPECT_EQ(policies[1].semaphores, 4);
  EXPECT_EQ(policies[1].waits, 48 * 4 * 3);
  EXPECT_EQ(policies[1].posts_per_value, 48);
  EXPECT_EQ(policies[1].tiles_awaited, 24);
}

TEST(Policies, attention_shares_a_semaphore_at_a_stride) {
  auto const pipeline = examples::attention_scores(12, 4);
  EXPECT_THAT(names(pipeline), ElementsAre("TileSync", "StridedSync", "RowSync"));
  auto const strided = generate_policies(pipeline, 0)[1];
  EXPECT_EQ(strided.map.dimension[0].width, 12);
  EXPECT_EQ(strided.posts_per_value, 3);  // XQ, XK and XV of a column
  EXPECT_EQ(strided.semaphores, 12 * 4);
}

/// QKV of `heads` heads in tiles of `wide` columns, two tiles of rows; scores read queries and keys of a
/// head, context its values.
Pipeline unfused_attention(int heads, int key_heads, int head_columns, int wide) {
  Pipeline pipeline;
  auto const tiles = ((heads + 2 * key_heads) * head_columns + wide - 1) / wide;
  pipeline.stages = {stage("qkv", {{"x", tiles}, {"y", 2}}),
                     stage("scores", {{"x", 2}, {"y", 2}, {"z", heads}}),
                     stage("context", {{"x", 1}, {"y", 2}, {"z", heads}})};
  auto const column = [&](int first, int per) {
    auto const begin = (floor_div(dim(2), per) + TileExpr::constant(first)) * head_columns;
    return TileRange{floor_div(begin, wide),
                     floor_div(begin + TileExpr::constant(head_columns + wide - 1), wide), false};
  };
  int const group = heads / key_heads;
  depend(pipeline, 1, 0, {{{column(0, 1), {dim(1), dim(1) + TileExpr::constant(1)}}}});
  depend(pipeline, 1, 0, {{{column(heads, group), {dim(0), dim(0) + TileExpr::constant(1)}}}}, "b");
  depend(pipeline, 2, 0, {{{column(heads + key_heads, group), all(2)}}}, "b");
  return pipeline;
}

Policy const* strided_of(std::vector<Policy> const& policies) {
  auto const found = std::find_if(policies.begin(), policies.end(),
                                  [](Policy const& policy) { return policy.name == "StridedSync"; });
  return found == policies.end() ? nullptr : &*found;
}

// Figure 4(b) of the paper: no tile reads two of the three, which lie a third of the product apart.
TEST(Policies, queries_keys_and_values_of_a_head_share_a_semaphore) {
  struct Case {
    int wide, apart;
  };
  for (auto const& [wide, apart] : {Case{128, 12}, Case{64, 24}, Case{192, 8}, Case{256, 6}}) {
    auto const pipeline = unfused_attention(12, 12, 128, wide);
    for (int d = 0; d < 3; ++d) {
      auto const policies = generate_policies(pipeline, d);
      auto const* strided = strided_of(policies);
      ASSERT_NE(strided, nullptr) << wide << " columns, dependence " << d;
      EXPECT_EQ(strided->map.dimension[0].width, apart);
      EXPECT_EQ(strided->posts_per_value, 3);
      EXPECT_EQ(strided->semaphores, apart * 2);
    }
  }
}

TEST(Policies, what_lies_at_no_stride_is_given_none) {
  // Fewer keys than queries; tiles that hold queries and keys; one dependence, which reads a tile each.
  EXPECT_EQ(strided_of(generate_policies(unfused_attention(12, 4, 128, 128), 1)), nullptr);
  EXPECT_EQ(strided_of(generate_policies(unfused_attention(3, 3, 128, 256), 1)), nullptr);
  auto alone = unfused_attention(12, 12, 128, 128);
  alone.dependences.resize(1);
  EXPECT_EQ(strided_of(generate_policies(alone, 0)), nullptr);
}

TEST(Policies, convolutions_have_their_own_name) {
  EXPECT_THAT(names(examples::conv2d(18, 4)), ElementsAre("Conv2DTileSync", "RowSync"));
}

TEST(Policies, a_convolutions_halo_groups_rows_that_follow_each_other) {
  Pipeline pipeline;
  pipeline.stages = {stage("conv1", {{"x", 2}, {"y", 28}}), stage("conv2", {{"x", 2}, {"y", 14}})};
  auto const y = dim(1) * 2;
  depend(pipeline, 1, 0, {{{all(2), {y + TileExpr::constant(-1), y + TileExpr::constant(3), true}}}});
  EXPECT_THAT(names(pipeline), ElementsAre("Conv2DTileSync", "RowSync", "EachBlock2", "BatchedRowSync",
                                           "EachAll", "GridSync"));
}

TEST(Policies, taller_consumer_rows_group_the_producers_rows) {
  Pipeline pipeline;
  pipeline.stages = {stage("gemm1", {{"x", 8}, {"y", 8}}), stage("gemm2", {{"x", 8}, {"y", 4}})};
  depend(pipeline, 1, 0, {{{all(8), {dim(1) * 2, dim(1) * 2 + TileExpr::constant(2)}}}});
  auto const policies = generate_policies(pipeline, 0);
  auto const batched = std::find_if(policies.begin(), policies.end(),
                                    [](Policy const& p) { return p.name == "BatchedRowSync"; });
  ASSERT_NE(batched, policies.end());
  EXPECT_EQ(batched->map.dimension[1].width, 2);
  EXPECT_EQ(batched->waits, 32);
  EXPECT_EQ(batched->tiles_awaited, 16);
}

TEST(Policies, a_division_by_a_tile_size_is_no_convolution) {
  Pipeline pipeline;
  pipeline.stages = {stage("t", {{"x", 2}, {"y", 4}}), stage("gemm2", {{"x", 16}, {"y", 4}})};
  depend(pipeline, 1, 0, {{{at(floor_div(dim(0), 16)), at(dim(1))}}});
  EXPECT_THAT(names(pipeline), ElementsAre("TileSync", "RowSync"));
}

TEST(Policies, same_tile_needs_no_choice) {
  Pipeline pipeline;
  pipeline.stages = {stage("copy1", {{"x", 64}}), stage("copy2", {{"x", 64}})};
  depend(pipeline, 1, 0, {{{at(dim(0))}}});
  EXPECT_THAT(names(pipeline), ElementsAre("TileSync"));
}

TEST(Policies, names_of_other_products) {
  TileGrid grid;
  grid.rank = 3;
  grid.extent[0] = 8, grid.extent[1] = 8, grid.extent[2] = 4;
  SemaphoreMap map;
  map.dimension[0] = {Grouping::block, 4};
  map.dimension[2] = {Grouping::all, 1};
  EXPECT_EQ(policy_name(map, grid, false), "Block4EachAll");
  EXPECT_EQ(policy_name(whole_grid(grid), grid, false), "GridSync");
}

TEST(Policies, one_that_was_asked_for_is_the_only_one) {
  auto pipeline = support::figure_one();
  EXPECT_GT(generate_policies(pipeline, 0).size(), 1u);
  pipeline.dependences[0].policy = rows(2);
  auto const two_rows = generate_policies(pipeline, 0);
  ASSERT_EQ(two_rows.size(), 1u);
  EXPECT_EQ(two_rows[0].name, "GridSync");  // both of its two rows
  EXPECT_EQ(two_rows[0].semaphores, 1);
  auto const grid = pipeline.stages[0].tile_grid();
  pipeline.dependences[0].policy =
      NamedPolicy{"by corners", table_map(grid, [](Tile const& tile) { return tile.at[0] == 1 ? 1 : 0; })};
  auto const table = generate_policies(pipeline, 0);
  ASSERT_EQ(table.size(), 1u);
  EXPECT_EQ(table[0].name, "by corners");
  EXPECT_EQ(table[0].semaphores, 2);
  EXPECT_EQ(table[0].posts_per_value, 4);
  EXPECT_EQ(table[0].waits, 2 * 6);
}

TEST(Policies, a_plan_has_the_policy_that_was_asked_for) {
  auto pipeline = support::figure_one();
  auto const grid = pipeline.stages[0].tile_grid();
  pipeline.dependences[0].policy =
      NamedPolicy{"by corners", table_map(grid, [](Tile const& tile) { return tile.at[0] == 1 ? 1 : 0; })};
  Recipe recipe;
  recipe.mechanism = Mechanism::pdl_tiles;
  auto const plan = build_plan(check(pipeline).value(), support::ideal_machine(4), recipe);
  ASSERT_TRUE(plan) << to_text(plan.error());
  ASSERT_EQ(plan->semaphores.size(), 1u);
  EXPECT_EQ(plan->semaphores[0].policy, "by corners");
  auto const again = parse_plan(print_plan(*plan), "plan.json");
  ASSERT_TRUE(again) << to_text(again.error());
  EXPECT_EQ(again->semaphores[0].map, plan->semaphores[0].map);
  EXPECT_EQ(again->pipeline.dependences[0].policy, plan->pipeline.dependences[0].policy);
}

}  // namespace
}  // namespace tessera
