// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/build.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "plan/examples.hpp"
#include "support/random_pipeline.hpp"
#include "tessera/plan/orders.hpp"

namespace tessera {
namespace {

using examples::machine_of;

CheckedPipeline checked(Pipeline const& pipeline) {
  auto result = check(pipeline);
  if (!result) throw std::runtime_error(to_text(result.error()));
  return *result;
}

Recipe recipe_for(Pipeline const& pipeline, Mechanism mechanism, std::size_t policy = 0) {
  Recipe recipe;
  recipe.mechanism = mechanism;
  for (std::size_t d = 0; d < pipeline.dependences.size(); ++d) {
    auto const policies = generate_policies(pipeline, static_cast<int>(d));
    recipe.policies.push_back(policies[policy % policies.size()]);
  }
  return recipe;
}

Plan built(Pipeline const& pipeline, Recipe const& recipe, MachineProfile const& machine) {
  auto plan = build_plan(checked(pipeline), machine, recipe);
  if (!plan) throw std::runtime_error(to_text(plan.error()));
  return *plan;
}

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

/// Why a plan cannot be built where a stage's kernel lacks an ability.
std::string lacking(int stage, bool Abilities::*ability, Mechanism mechanism) {
  auto pipeline = examples::mlp(8, 8, 4);
  auto& kernel = pipeline.stages[static_cast<std::size_t>(stage)];
  kernel.kernel = "mine";
  kernel.can.*ability = false;
  auto const plan = build_plan(checked(pipeline), machine_of(4), recipe_for(pipeline, mechanism));
  return plan ? "built" : to_text(plan.error());
}

TEST(Build, asks_of_no_kernel_what_it_cannot_do) {
  std::string const hint = "\n   hint: take another mechanism or another kernel";
  EXPECT_EQ(lacking(0, &Abilities::post, Mechanism::pdl_tiles),
            "error E0303: mine cannot post its tiles, as PDL + tiles has it" + hint);
  EXPECT_EQ(lacking(1, &Abilities::wait, Mechanism::fused),
            "error E0303: mine cannot wait for tiles, as fused has it" + hint);
  EXPECT_EQ(lacking(1, &Abilities::start_early, Mechanism::pdl),
            "error E0303: mine cannot start before the kernel before it is complete, as PDL has it" + hint);
  EXPECT_EQ(lacking(0, &Abilities::run_beside, Mechanism::wait_kernel),
            "error E0303: mine cannot say that its blocks have started, as wait kernel has it" + hint);
  EXPECT_EQ(lacking(1, &Abilities::fuse, Mechanism::fused),
            "error E0303: mine cannot be part of a fused launch, as fused has it" + hint);
  EXPECT_EQ(lacking(1, &Abilities::run_alone, Mechanism::stream_order),
            "error E0303: mine cannot be a launch of its own, as stream order has it" + hint);
  EXPECT_EQ(lacking(0, &Abilities::start_early, Mechanism::pdl), "built");  // the first starts in order
  EXPECT_EQ(lacking(0, &Abilities::wait, Mechanism::pdl_tiles), "built");
  EXPECT_EQ(lacking(1, &Abilities::post, Mechanism::pdl_tiles), "built");
}

TEST(Build, gives_clusters_the_order_that_they_have) {
  auto pipeline = examples::mlp(8, 8, 4);
  auto& first = pipeline.stages[0];
  first.can.any_order = false;
  first.cluster_rows = 2;
  auto recipe = recipe_for(pipeline, Mechanism::pdl_tiles);
  recipe.as_needed_order = true;
  auto const plan = built(pipeline, recipe, machine_of(4));
  EXPECT_EQ(plan.stages[0].order, make_band_order(first, {1, 2, 1}));
  EXPECT_TRUE(plan.stages[0].custom_order);
}

TEST(Build, gives_a_stage_the_band_and_the_grid_that_are_asked_for) {
  auto pipeline = examples::mlp(8, 8, 4);
  pipeline.stages[0].cluster_rows = 2;
  pipeline.stages[0].can.any_order = false;
  auto recipe = recipe_for(pipeline, Mechanism::pdl_tiles);
  recipe.stages = {{0, 16}, {4, std::nullopt}};
  auto const plan = built(pipeline, recipe, machine_of(4));
  EXPECT_EQ(plan.stages[0].order, make_band_order(pipeline.stages[0], {0, 2, 1}));
  EXPECT_EQ(plan.stages[1].order, make_band_order(pipeline.stages[1], {4, 1, 1}));
  EXPECT_TRUE(plan.stages[0].custom_order);
  EXPECT_EQ(plan.stages[0].persistent_blocks, 16);
  EXPECT_EQ(plan.stages[1].persistent_blocks, 0);
  EXPECT_EQ(describe(plan), "PDL + tiles, TileSync, columns persistent -> bands of 4, +RS");
  EXPECT_THAT(plan.proof, testing::HasSubstr("starts only when all 16 blocks of gemm1 have started"));
  for (auto const mechanism : {Mechanism::stream_order, Mechanism::pdl}) {
    recipe.mechanism = mechanism;
    auto const other = built(pipeline, recipe, machine_of(4));
    EXPECT_EQ(other.stages[1].order, plan.stages[1].order);
    EXPECT_TRUE(other.stages[1].custom_order) << "a table is looked up by ticket";
  }
}

TEST(Build, gives_a_fused_launch_bands_too) {
  auto const pipeline = examples::mlp(8, 8, 4);
  auto recipe = recipe_for(pipeline, Mechanism::fused);
  recipe.stages = {{0, std::nullopt}, {1, std::nullopt}};
  auto const plan = built(pipeline, recipe, machine_of(4));
  EXPECT_EQ(plan.stages[0].order.name, "columns");
  EXPECT_TRUE(plan.stages[0].custom_order);
  EXPECT_TRUE(plan.stages[1].custom_order);
}

TEST(Build, a_chained_plan_starts_early) {
  auto const pipeline = examples::mlp(8, 8, 4);
  for (auto const mechanism :
       {Mechanism::stream_order, Mechanism::pdl, Mechanism::pdl_tiles, Mechanism::fused}) {
    auto recipe = recipe_for(pipeline, mechanism);
    recipe.chained = true;
    auto const plan = built(pipeline, recipe, machine_of(4));
    EXPECT_EQ(plan.launches.front().start, LaunchStart::early);
    EXPECT_EQ(mechanism_of(plan), mechanism);
    EXPECT_THAT(describe(plan), testing::HasSubstr(", chained"));
    recipe.chained = false;
    auto const alone = built(pipeline, recipe, machine_of(4));
    EXPECT_EQ(alone.launches.front().start, LaunchStart::in_order);
    EXPECT_EQ(alone.launches.size(), plan.launches.size());
  }
}

std::string refusal_of(Pipeline const& pipeline, Recipe const& recipe) {
  auto const plan = build_plan(checked(pipeline), machine_of(4), recipe);
  return plan ? "built" : to_text(plan.error());
}

TEST(Build, refuses_bands_and_grids_that_a_kernel_has_not) {
  auto pipeline = examples::mlp(8, 8, 4);
  auto recipe = recipe_for(pipeline, Mechanism::pdl);
  recipe.stages = {{-1, std::nullopt}, {}};
  EXPECT_EQ(refusal_of(pipeline, recipe),
            "error E0303: gemm1 cannot take its tiles in bands of -1 rows\n"
            "   hint: give 1 row or more, or 0 for all");
  pipeline.stages[0].can.bands = false;
  recipe.stages = {{4, std::nullopt}, {}};
  EXPECT_EQ(refusal_of(pipeline, recipe),
            "error E0303: gemm1 cannot take its tiles in bands of 4 rows\n"
            "   hint: leave the band out, or take another kernel");
  pipeline.stages[1].can.persist = false;
  recipe.stages = {{}, {std::nullopt, 8}};
  EXPECT_EQ(refusal_of(pipeline, recipe),
            "error E0303: gemm2 cannot run as a persistent grid of 8 blocks\n"
            "   hint: give one block to each tile, or take another kernel");
  recipe.stages = {{}, {std::nullopt, 0}};
  EXPECT_EQ(refusal_of(pipeline, recipe), "built");
  recipe = recipe_for(pipeline, Mechanism::fused);
  recipe.stages = {{std::nullopt, 8}, {}};
  EXPECT_EQ(refusal_of(pipeline, recipe),
            "error E0303: gemm1 cannot run as a persistent grid of 8 blocks, as fused has it\n"
            "   hint: leave it out: the workers of a fused launch draw tickets");
  recipe.mechanism = Mechanism::wait_kernel;
  EXPECT_EQ(refusal_of(pipeline, recipe),
            "error E0303: gemm1 cannot run as a persistent grid of 8 blocks, as wait kernel has it\n"
            "   hint: give one block to each tile: that others beside it leave room is proved of such only");
}

TEST(Build, refuses_to_chain_what_cannot_start_early) {
  auto pipeline = examples::mlp(8, 8, 4);
  auto recipe = recipe_for(pipeline, Mechanism::wait_kernel);
  recipe.chained = true;
  EXPECT_EQ(refusal_of(pipeline, recipe),
            "error E0303: gemm1 cannot start early while others start beside it\n"
            "   hint: take a plan that is not chained, or another mechanism");
  recipe.mechanism = Mechanism::stream_order;
  pipeline.stages[0].can.start_early = false;
  EXPECT_EQ(
      refusal_of(pipeline, recipe),
      "error E0303: gemm1 cannot start before the kernel before it is complete, as a chained plan has it\n"
      "   hint: take a plan that is not chained, or another kernel");
  auto machine = machine_of(4);
  machine.has_pdl = false;
  pipeline.stages[0].can.start_early = true;
  auto const plan = build_plan(checked(pipeline), machine, recipe);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().front().message, "round has no programmatic dependent launch");
}

}  // namespace
}  // namespace tessera
