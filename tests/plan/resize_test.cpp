// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/resize.hpp"

#include <gmock/gmock.h>

#include "plan/llama.hpp"
#include "support/plans.hpp"
#include "tessera/check/check.hpp"
#include "tessera/plan/build.hpp"
#include "tessera/plan/orders.hpp"
#include "tessera/plan/plan_json.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

using examples::llama_mlp;
using testing::HasSubstr;

MachineProfile machine() {
  auto m = support::ideal_machine(16);
  m.dram_gbps = 1000;
  m.l2_gbps = 3000;
  m.l2_mib = 16;
  m.post_ns = m.wait_ns = 300;
  return m;
}

KernelEntry kernel(std::string name, int tile_m, int tile_n) {
  KernelEntry entry;
  entry.name = std::move(name);
  entry.family = "mine";
  entry.architectures = {"sm_90"};
  entry.tile_m = tile_m;
  entry.tile_n = tile_n;
  entry.tile_k = 64;
  entry.splits = k_any_splits;
  entry.forms = {{{ElementType::bf16}, {Epilogue::none, Epilogue::swiglu}, 4, {384, 168, 1000}}};
  return entry;
}

/// Tiles in any order, and tiles of clusters, which know only bands.
Registry kernels() {
  Registry registry;
  EXPECT_TRUE(registry.add(kernel("small", 128, 256)));
  auto clusters = kernel("clusters", 128, 256);
  clusters.cluster_m = 2;
  clusters.can.any_order = false;
  EXPECT_TRUE(registry.add(clusters));
  return registry;
}

Pipeline tiled(OperatorGraph const& graph, char const* first, char const* second, int splits = 1) {
  auto const registry = kernels();
  auto pipeline = tile(graph, {{*registry.find(first), 1}, {*registry.find(second), splits}});
  EXPECT_TRUE(pipeline) << to_text(pipeline.error());
  return *pipeline;
}

Plan planned(std::int64_t tokens, Mechanism mechanism, char const* first = "small", int splits = 1) {
  auto const checked = check(tiled(llama_mlp(tokens), first, "small", splits));
  EXPECT_TRUE(checked) << to_text(checked.error());
  Recipe recipe;
  recipe.mechanism = mechanism;
  auto plan = build_plan(*checked, machine(), recipe);
  EXPECT_TRUE(plan) << to_text(plan.error());
  plan->predicted_us = 10;
  plan->why = "it is fast";
  plan->alternatives = {{"another", 11, "slower"}};
  plan->stages[1].variant = "algorithm 7";
  return *plan;
}

std::string outcome(Plan const& plan, OperatorGraph const& graph) {
  auto const again = resize(plan, graph, kernels(), machine());
  return again ? "made" : to_text(again.error());
}

constexpr Mechanism k_all[] = {Mechanism::stream_order, Mechanism::pdl, Mechanism::wait_kernel,
                               Mechanism::pdl_tiles, Mechanism::fused};

TEST(Resize, ToTheSameSizesIsThePlanItself) {
  for (auto const mechanism : k_all)
    for (char const* const first : {"small", "clusters"})
      for (int const splits : {1, 2}) {
        auto const plan = planned(1000, mechanism, first, splits);
        auto const again = resize(plan, llama_mlp(1000), kernels(), machine());
        ASSERT_TRUE(again) << to_text(mechanism) << ": " << to_text(again.error());
        EXPECT_EQ(print_plan(*again), print_plan(plan)) << to_text(mechanism);
        // Also of a file, where the stages have other places.
        auto stored = plan;
        for (auto& stage : stored.pipeline.stages) stage.where = {"tune.json", 12};
        auto const read = parse_plan(print_plan(stored), "tune.json");
        ASSERT_TRUE(read) << to_text(read.error());
        auto const found = resize(*read, llama_mlp(1000), kernels(), machine());
        ASSERT_TRUE(found) << to_text(found.error());
        EXPECT_EQ(print_plan(*found), print_plan(plan)) << to_text(mechanism);
      }
}

TEST(Resize, ToOtherSizesIsAProvedPlanThatRuns) {
  for (auto const mechanism : k_all)
    for (char const* const first : {"small", "clusters"})
      for (std::int64_t const tokens : {1, 100, 129, 999, 1025, 2500}) {
        auto const plan = planned(1000, mechanism, first);
        auto const made = resize(plan, llama_mlp(tokens), kernels(), machine());
        ASSERT_TRUE(made) << to_text(mechanism) << ", " << tokens << ": " << to_text(made.error());
        EXPECT_EQ(made->pipeline, tiled(llama_mlp(tokens), first, "small"));
        EXPECT_EQ(made->stages[1].variant, "algorithm 7");
        EXPECT_EQ(made->predicted_us, 0);
        EXPECT_TRUE(made->why.empty() && made->alternatives.empty());
        EXPECT_FALSE(made->proof.empty());
        // What a file of it says is sound, and it runs.
        auto const read = parse_plan(print_plan(*made), "plan.json");
        EXPECT_TRUE(read) << to_text(read.error());
        auto const timeline = simulate(*made, machine());
        EXPECT_TRUE(timeline) << to_text(timeline.error());
        if (mechanism == Mechanism::fused)
          EXPECT_LE(made->launches[0].workers, plan.launches[0].workers);
        else
          EXPECT_EQ(made->launches, plan.launches);
      }
}

TEST(Resize, KeepsPoliciesBandsAndSwitches) {
  auto plan = planned(1000, Mechanism::pdl_tiles, "clusters");
  ASSERT_TRUE(plan.stages[0].order.bands);
  auto& map = plan.semaphores[0].map;
  map.dimension[0] = {Grouping::all, 1};
  map.dimension[1] = {Grouping::block, 2};
  plan.semaphores[0].policy = "BatchedRowSync";
  plan.semaphores[0].count = 4;
  plan.stages[0].order = make_band_order(plan.pipeline.stages[0], {4, 2, 1});
  plan.stages[1].persistent_blocks = 20;
  auto const made = resize(plan, llama_mlp(520), kernels(), machine());
  ASSERT_TRUE(made) << to_text(made.error());
  EXPECT_EQ(made->semaphores[0].map, map);
  EXPECT_EQ(made->semaphores[0].policy, "BatchedRowSync");
  EXPECT_EQ(made->semaphores[0].count, 3);  // five rows of tiles
  EXPECT_EQ(made->stages[0].order, make_band_order(made->pipeline.stages[0], {4, 2, 1}));
  EXPECT_EQ(made->stages[0].custom_order, plan.stages[0].custom_order);
  EXPECT_EQ(made->stages[1].persistent_blocks, 20);
  EXPECT_EQ(made->launches, plan.launches);

  auto const less = resize(plan, llama_mlp(1), kernels(), machine());
  ASSERT_TRUE(less) << to_text(less.error());
  EXPECT_EQ(less->semaphores[0].count, 1);
  EXPECT_EQ(less->stages[1].persistent_blocks, 20);  // of 32 tiles
}

TEST(Resize, WorkersAreAtMostTheBlocks) {
  auto const plan = planned(1000, Mechanism::fused);
  auto few = plan;
  few.launches[0].workers = 7;
  auto const kept = resize(few, llama_mlp(2000), kernels(), machine());
  ASSERT_TRUE(kept) << to_text(kept.error());
  EXPECT_EQ(kept->launches[0].workers, 7);

  // Fewer blocks than could be resident: as many again where there are more.
  auto big = machine();
  big.sms = 1000;
  auto const checked = check(tiled(llama_mlp(100), "small", "small"));
  Recipe recipe;
  recipe.mechanism = Mechanism::fused;
  auto const small = build_plan(*checked, big, recipe);
  ASSERT_TRUE(small) << to_text(small.error());
  auto const blocks = [](Plan const& p) {
    return p.pipeline.stages[0].blocks() + p.pipeline.stages[1].blocks();
  };
  ASSERT_EQ(small->launches[0].workers, blocks(*small));
  auto const larger = resize(*small, llama_mlp(200), kernels(), big);
  ASSERT_TRUE(larger) << to_text(larger.error());
  EXPECT_EQ(larger->launches[0].workers, blocks(*larger));
  auto const back = resize(*larger, llama_mlp(100), kernels(), big);
  ASSERT_TRUE(back) << to_text(back.error());
  EXPECT_EQ(print_plan(*back), print_plan(*small));
}

TEST(Resize, RefusesWhatBelongsToOneGrid) {
  auto const graph = llama_mlp(1000);
  auto const plan = planned(1000, Mechanism::pdl_tiles);
  auto order = plan;
  order.stages[0].order = {"backwards", std::vector<std::int32_t>(8 * 22)};
  EXPECT_EQ(outcome(order, graph),
            "error E0306: the plan of llama-65b mlp cannot be made for the sizes of llama-65b mlp: the order "
            "\"backwards\" of gate_up is a table of its tiles\n"
            "   hint: plan these sizes themselves: tessera plan");
  auto policy = plan;
  policy.semaphores[0].map = table_map(std::vector<std::int32_t>(8 * 22));
  EXPECT_THAT(outcome(policy, graph), HasSubstr("a semaphore set of gate_up is a table of its tiles"));
  auto tickets = planned(1000, Mechanism::fused);
  tickets.launches[0].tickets = {{0, 0}};
  EXPECT_THAT(outcome(tickets, graph), HasSubstr("the workers of gate_up draw a list of its blocks"));
}

TEST(Resize, RefusesOtherOperatorsAndKernels) {
  auto const plan = planned(1000, Mechanism::pdl_tiles);
  auto one = llama_mlp(1000);
  one.operators.pop_back();
  EXPECT_THAT(outcome(plan, one),
              HasSubstr("E0306: the plan of llama-65b mlp cannot be made for the sizes of "
                        "llama-65b mlp: it has 2 stages, and there are 1 operators"));
  auto apart = llama_mlp(1000);
  apart.operators[1].inputs[0] = {"a", "z", "", ReadPattern::rows};
  EXPECT_THAT(outcome(plan, apart), HasSubstr("its operators read each other in another way"));
  auto unknown = plan;
  unknown.pipeline.stages[1].kernel = "lost";
  EXPECT_THAT(outcome(unknown, llama_mlp(1000)), HasSubstr("kernel \"lost\" of down is not registered"));
  auto half = llama_mlp(1000);
  half.type = ElementType::fp16;
  EXPECT_THAT(outcome(plan, half), HasSubstr("error E0151: "));
  // Of 43 slices of its depth there are 2 left.
  auto shallow = llama_mlp(1000);
  shallow.operators[0].n = 2 * 128;
  shallow.operators[1].k = 128;
  EXPECT_THAT(outcome(planned(1000, Mechanism::pdl_tiles, "small", 4), shallow), HasSubstr("error E0151: "));
}

TEST(Resize, RefusesWhatCouldGetStuck) {
  auto plan = planned(1000, Mechanism::fused);
  plan.semaphores.clear();
  plan.dependences[0].semaphore_set = -1;
  EXPECT_THAT(outcome(plan, llama_mlp(999)), HasSubstr("E0306"));
  auto tiny = machine();
  tiny.shared_bytes_per_block = 10;
  auto const none = resize(planned(1000, Mechanism::stream_order), llama_mlp(999), kernels(), tiny);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().front().code, "E0301");
}

}  // namespace
}  // namespace tessera
