// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/build.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "plan/built_plans.hpp"
#include "support/random_pipeline.hpp"
#include "tessera/plan/orders.hpp"

namespace tessera {
namespace {

using examples::built;
using examples::checked;
using examples::machine_of;
using examples::recipe_for;

TEST(Build, stream_order_and_pdl_have_no_semaphores) {
  auto const pipeline = examples::mlp(8, 8, 4);
  for (auto const mechanism : {Mechanism::stream_order, Mechanism::pdl}) {
    auto const plan = built(pipeline, recipe_for(pipeline, mechanism), machine_of(4));
    EXPECT_TRUE(plan.semaphores.empty());
    EXPECT_EQ(plan.dependences[0].semaphore_set, -1);
    EXPECT_FALSE(plan.stages[1].custom_order);
    EXPECT_FALSE(plan.proof.empty());
  }
}

TEST(Build, one_set_serves_all_dependences_with_the_same_policy) {
  auto pipeline = examples::mlp(8, 8, 4);
  pipeline.stages.push_back(examples::stage("gemm3", {{"x", 8}, {"y", 4}}));
  examples::depend(pipeline, 2, 0, {{{examples::all(8), examples::at(examples::dim(1))}}});
  examples::depend(pipeline, 2, 1, {{{examples::all(8), examples::at(examples::dim(1))}}}, "c");
  auto const plan = built(pipeline, recipe_for(pipeline, Mechanism::pdl_tiles, 1), machine_of(4));
  ASSERT_EQ(plan.semaphores.size(), 2u);
  EXPECT_EQ(plan.dependences[0].semaphore_set, plan.dependences[1].semaphore_set);
  EXPECT_EQ(plan.semaphores[1].first, plan.semaphores[0].count);
}

TEST(Build, wait_kernel_is_avoided_below_two_waves) {
  auto const small = examples::mlp(4, 4, 1);  // 8 blocks on 8 slots: one wave
  auto const large = examples::mlp(16, 16, 2);
  auto const machine = machine_of(4);
  EXPECT_FALSE(built(small, recipe_for(small, Mechanism::wait_kernel), machine).launches[1].wait_kernel);
  EXPECT_TRUE(built(large, recipe_for(large, Mechanism::wait_kernel), machine).launches[1].wait_kernel);
  auto vanilla = recipe_for(small, Mechanism::wait_kernel);
  vanilla.avoid_wait_kernel = vanilla.avoid_custom_order = false;
  auto const plan = built(small, vanilla, machine);
  EXPECT_TRUE(plan.launches[1].wait_kernel);
  EXPECT_FALSE(plan.launches[0].wait_kernel);
  EXPECT_TRUE(plan.stages[1].custom_order);
}

TEST(Build, tickets_are_avoided_up_to_two_waves_in_row_major_order) {
  auto const machine = machine_of(4);
  auto const two_waves = examples::mlp(8, 8, 1);
  EXPECT_FALSE(built(two_waves, recipe_for(two_waves, Mechanism::pdl_tiles), machine).stages[0].custom_order);
  auto const more = examples::mlp(8, 9, 1);
  EXPECT_TRUE(built(more, recipe_for(more, Mechanism::pdl_tiles), machine).stages[1].custom_order);
  auto const strided = examples::attention_scores(2, 2);
  auto recipe = recipe_for(strided, Mechanism::pdl_tiles);
  recipe.as_needed_order = true;
  auto const plan = built(strided, recipe, machine_of(16));
  EXPECT_TRUE(plan.stages[0].custom_order);
  EXPECT_FALSE(plan.stages[1].custom_order);
}

TEST(Build, loads_are_reordered_only_where_something_has_no_producer) {
  auto pipeline = examples::mlp(8, 8, 1);
  EXPECT_TRUE(built(pipeline, recipe_for(pipeline, Mechanism::pdl), machine_of(4)).stages[1].reorder_loads);
  EXPECT_FALSE(built(pipeline, recipe_for(pipeline, Mechanism::pdl), machine_of(4)).stages[0].reorder_loads);
  EXPECT_FALSE(
      built(pipeline, recipe_for(pipeline, Mechanism::stream_order), machine_of(4)).stages[1].reorder_loads);
  pipeline.stages[1].operands.pop_back();
  EXPECT_FALSE(built(pipeline, recipe_for(pipeline, Mechanism::pdl), machine_of(4)).stages[1].reorder_loads);
}

TEST(Build, plain_store_needs_a_single_post) {
  auto const tile = [](int splits) {
    auto const pipeline = examples::mlp(8, 8, 1, splits);
    return built(pipeline, recipe_for(pipeline, Mechanism::pdl_tiles), machine_of(8)).stages[0].plain_store;
  };
  EXPECT_TRUE(tile(1));
  EXPECT_FALSE(tile(2));
}

TEST(Build, fused_launch_takes_the_most_of_all_stages) {
  auto pipeline = examples::mlp(8, 8, 4);
  pipeline.stages[1].resources.shared_bytes = 100 * 1024;  // one per SM instead of two
  auto const plan = built(pipeline, recipe_for(pipeline, Mechanism::fused), machine_of(4));
  EXPECT_EQ(plan.launches.front().workers, 4);
  EXPECT_EQ(plan.stages[0].occupancy, 1);
  EXPECT_DOUBLE_EQ(plan.stages[0].waves, 8);
  auto const few =
      built(examples::mlp(1, 1, 1), recipe_for(examples::mlp(1, 1, 1), Mechanism::fused), machine_of(4));
  EXPECT_EQ(few.launches.front().workers, 2);
}

TEST(Build, an_uncovered_reuse_becomes_an_edge_with_one_semaphore) {
  // gemm3 overwrites x, which gemm1 reads, and waits only for its own row of gemm2.
  auto pipeline = examples::mlp(8, 8, 4);
  pipeline.stages.push_back(examples::stage("gemm3", {{"x", 8}, {"y", 4}}));
  examples::depend(pipeline, 2, 1, {{{examples::at(examples::dim(0)), examples::at(examples::dim(1))}}});
  pipeline.stages[2].output = "x";
  bool uncovered = false;
  auto const good = checked(pipeline);
  for (auto const& reuse : good.reuses()) uncovered = uncovered || !reuse.covered;
  auto const plan = built(pipeline, recipe_for(pipeline, Mechanism::pdl_tiles), machine_of(4));
  ASSERT_TRUE(uncovered);
  ASSERT_FALSE(plan.reuse_edges.empty());
  for (auto const& edge : plan.reuse_edges) {
    ASSERT_GE(edge.semaphore_set, 0);
    EXPECT_EQ(plan.semaphores[static_cast<std::size_t>(edge.semaphore_set)].count, 1);
  }
  EXPECT_TRUE(
      built(pipeline, recipe_for(pipeline, Mechanism::stream_order), machine_of(4)).reuse_edges.empty());
  auto const pdl = built(pipeline, recipe_for(pipeline, Mechanism::pdl), machine_of(4));
  for (auto const& edge : pdl.reuse_edges) EXPECT_EQ(edge.semaphore_set, -1);
}

TEST(Build, refuses_a_block_that_does_not_fit) {
  auto pipeline = examples::mlp(8, 8, 4);
  pipeline.stages[1].resources.shared_bytes = 200 * 1024;
  pipeline.stages[1].where = {"mlp.cpp", 12};
  auto const plan = build_plan(checked(pipeline), machine_of(4), Recipe{});
  ASSERT_FALSE(plan);
  EXPECT_EQ(
      to_text(plan.error()),
      "mlp.cpp:12: error E0301: a block of gemm2 does not fit an SM of round: shared memory run out\n"
      "   a block takes 256 threads, 128 registers each, and 204800 bytes of shared memory\n"
      "   an SM has 2048 threads, 65536 registers and 163840 bytes of shared memory, 131072 for one block\n"
      "   hint: choose a smaller tile, or fewer slices in flight");
}

TEST(Build, refuses_pdl_where_there_is_none) {
  auto machine = machine_of(4);
  machine.has_pdl = false;
  auto const pipeline = examples::mlp(8, 8, 4);
  auto const plan = build_plan(checked(pipeline), machine, recipe_for(pipeline, Mechanism::pdl_tiles));
  ASSERT_FALSE(plan);
  EXPECT_EQ(to_text(plan.error()),
            "error E0303: round has no programmatic dependent launch\n"
            "   hint: use the wait kernel or a fused launch there");
}

TEST(Build, counts_every_split_where_the_last_posts_for_all) {
  auto pipeline = examples::mlp(8, 8, 4);
  pipeline.stages[0].splits = 2;
  auto const apart = built(pipeline, recipe_for(pipeline, Mechanism::pdl_tiles), machine_of(4));
  pipeline.stages[0].last_split_posts = true;
  auto const together = built(pipeline, recipe_for(pipeline, Mechanism::pdl_tiles), machine_of(4));
  auto const awaited = awaited_by(together, 0, 0);
  ASSERT_FALSE(awaited.empty());
  EXPECT_EQ(awaited.front().value, 2);
  EXPECT_EQ(awaited.front().value, awaited_by(apart, 0, 0).front().value);
  EXPECT_FALSE(together.stages[0].plain_store);
}

/// What is awaited is exactly what is posted: for any policy of any random pipeline.
RC_GTEST_PROP(Build, awaited_values_equal_the_posts, ()) {
  auto const pipeline = *random::pipelines();
  auto const good = check(pipeline);
  RC_PRE(good.has_value());
  auto const recipe = recipe_for(pipeline, Mechanism::fused, *rc::gen::inRange<std::size_t>(0, 8));
  auto const plan = build_plan(*good, machine_of(4), recipe);
  RC_ASSERT(plan.has_value());

  std::map<std::int64_t, std::int64_t> posts;
  std::map<std::int64_t, std::vector<std::pair<int, std::int64_t>>> posters;
  for (int s = 0; s < static_cast<int>(pipeline.stages.size()); ++s)
    for (std::int64_t tile = 0; tile < pipeline.stages[static_cast<std::size_t>(s)].tiles(); ++tile)
      for (auto const semaphore : posted_by(*plan, s, tile)) {
        posts[semaphore] += pipeline.stages[static_cast<std::size_t>(s)].splits;
        posters[semaphore].emplace_back(s, tile);
      }
  for (int d = 0; d < static_cast<int>(pipeline.dependences.size()); ++d) {
    auto const& dependence = pipeline.dependences[static_cast<std::size_t>(d)];
    auto const consumers = pipeline.stages[static_cast<std::size_t>(dependence.consumer)].tiles();
    auto const grid = pipeline.stages[static_cast<std::size_t>(dependence.producer)].tile_grid();
    for (std::int64_t tile = 0; tile < consumers; ++tile) {
      std::vector<std::pair<int, std::int64_t>> covered;
      for (auto const& awaited : awaited_by(*plan, d, tile)) {
        RC_ASSERT(awaited.value == posts[awaited.semaphore]);
        auto const& by = posters[awaited.semaphore];
        covered.insert(covered.end(), by.begin(), by.end());
      }
      // Every tile that a brute-force reading of the accesses names is waited for.
      auto const at =
          tile_of(pipeline.stages[static_cast<std::size_t>(dependence.consumer)].tile_grid(), tile);
      for (std::int64_t producer = 0; producer < grid.tiles(); ++producer) {
        auto const p = tile_of(grid, producer);
        bool read = false;
        for (auto const& access : dependence.accesses) {
          bool inside = true;
          for (std::size_t k = 0; k < access.ranges.size(); ++k)
            inside = inside && p.at[k] >= access.ranges[k].begin.evaluate(at.at) &&
                     p.at[k] < access.ranges[k].end.evaluate(at.at);
          read = read || inside;
        }
        if (read)
          RC_ASSERT(std::find(covered.begin(), covered.end(), std::pair(dependence.producer, producer)) !=
                    covered.end());
      }
    }
  }
}

/// The costs that policies state are the ones that plans have.
RC_GTEST_PROP(Build, policy_costs_equal_a_count, ()) {
  auto const pipeline = *random::pipelines();
  auto const good = check(pipeline);
  RC_PRE(good.has_value());
  for (int d = 0; d < static_cast<int>(pipeline.dependences.size()); ++d)
    for (auto const& policy : generate_policies(pipeline, d)) {
      auto recipe = recipe_for(pipeline, Mechanism::fused);
      recipe.policies[static_cast<std::size_t>(d)] = policy;
      auto const plan = build_plan(*good, machine_of(4), recipe);
      RC_ASSERT(plan.has_value());
      auto const& consumer =
          pipeline
              .stages[static_cast<std::size_t>(pipeline.dependences[static_cast<std::size_t>(d)].consumer)];
      std::int64_t waits = 0, most = 0;
      for (std::int64_t tile = 0; tile < consumer.tiles(); ++tile)
        for (auto const& awaited : awaited_by(*plan, d, tile)) {
          waits += consumer.splits;
          most = std::max(most, awaited.value);
        }
      RC_ASSERT(waits == policy.waits);
      RC_ASSERT(most <= policy.posts_per_value);
    }
}

}  // namespace
}  // namespace tessera
