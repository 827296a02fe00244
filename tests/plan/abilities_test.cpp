// SPDX-License-Identifier: Apache-2.0
// Recipes that ask kernels for orders, grids and starts: what they get, and what is refused.
#include <gmock/gmock.h>

#include "plan/built_plans.hpp"
#include "tessera/plan/orders.hpp"

namespace tessera {
namespace {

using examples::built;
using examples::checked;
using examples::machine_of;
using examples::recipe_for;

/// Why a plan cannot be built where a stage's kernel lacks an ability.
std::string lacking(int stage, bool Abilities::*ability, Mechanism mechanism) {
  auto pipeline = examples::mlp(8, 8, 4);
  auto& kernel = pipeline.stages[static_cast<std::size_t>(stage)];
  kernel.kernel = "mine";
  kernel.can.*ability = false;
  auto const plan = build_plan(checked(pipeline), machine_of(4), recipe_for(pipeline, mechanism));
  return plan ? "built" : to_text(plan.error());
}

TEST(Abilities, asks_of_no_kernel_what_it_cannot_do) {
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

TEST(Abilities, gives_clusters_the_order_that_they_have) {
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

TEST(Abilities, gives_a_stage_the_band_and_the_grid_that_are_asked_for) {
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

TEST(Abilities, gives_a_fused_launch_bands_too) {
  auto const pipeline = examples::mlp(8, 8, 4);
  auto recipe = recipe_for(pipeline, Mechanism::fused);
  recipe.stages = {{0, std::nullopt}, {1, std::nullopt}};
  auto const plan = built(pipeline, recipe, machine_of(4));
  EXPECT_EQ(plan.stages[0].order.name, "columns");
  EXPECT_TRUE(plan.stages[0].custom_order);
  EXPECT_TRUE(plan.stages[1].custom_order);
}

TEST(Abilities, a_chained_plan_starts_early) {
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

TEST(Abilities, refuses_bands_and_grids_that_a_kernel_has_not) {
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

TEST(Abilities, refuses_to_chain_what_cannot_start_early) {
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
