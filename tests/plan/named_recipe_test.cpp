// SPDX-License-Identifier: Apache-2.0
// A plan's recipe, as JSON too, gives the plan again.
#include "tessera/plan/named_recipe.hpp"

#include <gmock/gmock.h>

#include "tessera/measure/machine_json.hpp"
#include "tessera/plan/orders.hpp"
#include "tessera/plan/plan_json.hpp"
#include "tessera/plan/recipe_json.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/simulate/rank.hpp"

namespace tessera {
namespace {

Operator product(char const* name, std::int64_t m, std::int64_t n, std::int64_t k, char const* reads) {
  Operator op;
  op.name = name;
  op.m = m;
  op.n = n;
  op.k = k;
  op.inputs = {{"a", reads, "", ReadPattern::rows},
               {"b", std::string("weights of ") + name, "", ReadPattern::rows}};
  return op;
}

/// A pair of products, and a third where the plans of three are wanted.
OperatorGraph chain(std::int64_t tokens, int operators = 2) {
  OperatorGraph graph;
  graph.name = "chain";
  graph.operators = {product("first", tokens, 6144, 12288, "x"),
                     product("second", tokens, 12288, 6144, "first"),
                     product("third", tokens, 6144, 12288, "second")};
  graph.operators[1].inputs[0].producer = "first";
  graph.operators[2].inputs[0].producer = "second";
  graph.operators.resize(static_cast<std::size_t>(operators));
  return graph;
}

/// What decides how a plan runs: without prices and reasons.
std::string launched(Plan plan) {
  plan.predicted_us = plan.stream_order_us = 0;
  plan.why.clear();
  plan.bound_by.clear();
  plan.alternatives.clear();
  return print_plan(plan);
}

class NamedRecipes : public testing::Test {
 protected:
  MachineProfile machine = tessera::machine("h200").value();

  Expected<Plan> planned(std::string const& json, OperatorGraph const& graph) const {
    auto const recipe = parse_recipe(json, "recipe");
    if (!recipe) return tl::make_unexpected(recipe.error());
    return build_plan(graph, *recipe, shipped_kernels(), machine);
  }
  std::string refusal(std::string const& json) const {
    auto const plan = planned(json, chain(1024));
    return plan ? "" : to_text(plan.error());
  }
};

TEST_F(NamedRecipes, GiveThePlanAgain) {
  int given = 0;
  for (std::int64_t const tokens : {16, 256, 1024})
    for (auto const mechanism :
         {Mechanism::stream_order, Mechanism::pdl, Mechanism::pdl_tiles, Mechanism::fused}) {
      auto const graph = chain(tokens, tokens == 256 ? 3 : 2);
      PlanOptions options;
      options.mechanisms = {mechanism};
      options.chained = tokens != 16;
      options.keep = 6;
      auto const plans = rank_by_simulation(graph, shipped_kernels(), machine, options);
      if (!plans) continue;  // no kernel for this
      for (auto const& plan : *plans) {
        auto const recipe = recipe_of(plan);
        if (!recipe) continue;
        ++given;
        auto const read = parse_recipe(print_recipe(*recipe), "recipe");
        ASSERT_TRUE(read) << print_recipe(*recipe) << to_text(read.error());
        auto const again = build_plan(graph, *read, shipped_kernels(), machine);
        ASSERT_TRUE(again) << print_recipe(*recipe) << to_text(again.error());
        EXPECT_EQ(launched(*again), launched(plan)) << print_recipe(*recipe);
      }
    }
  EXPECT_GE(given, 30);
}

TEST_F(NamedRecipes, SayInJsonWhatTheyLeaveToNobody) {
  std::string const json =
      R"({"mechanism":"pdl_tiles","stages":[{"kernel":"gemm_128x192x64_2x1","band":4,"persistent_blocks":132},)"
      R"({"kernel":"gemm_128x256x64_2x1","variant":"any","band":1,"persistent_blocks":0}],)"
      R"("policies":[{"name":"Block2Each","map":[{"block":2},"each"]}],"reorder_loads":false,"chained":true})";
  auto const plan = planned(json, chain(1024));
  ASSERT_TRUE(plan) << to_text(plan.error());
  EXPECT_EQ(plan->stages[0].order.bands->rows, 4);
  EXPECT_EQ(plan->stages[0].persistent_blocks, 132);
  EXPECT_EQ(plan->stages[1].variant, "any");
  EXPECT_FALSE(plan->stages[1].reorder_loads);
  EXPECT_EQ(plan->semaphores.front().map.dimension[0].width, 2);
  EXPECT_EQ(plan->launches.front().start, LaunchStart::early);
  EXPECT_EQ(print_recipe(*recipe_of(*plan)), json);
}

TEST_F(NamedRecipes, AreNotThereForOtherPlans) {
  auto plan = planned(R"({"mechanism":"pdl","stages":[{"kernel":"gemm_128x192x64_2x1"},)"
                      R"({"kernel":"gemm_128x192x64_2x1"},{"kernel":"gemm_128x192x64_2x1"}]})",
                      chain(1024, 3));
  ASSERT_TRUE(plan) << to_text(plan.error());
  EXPECT_TRUE(recipe_of(*plan));
  auto mixed = *plan;
  mixed.launches[1].start = LaunchStart::in_order;
  EXPECT_FALSE(recipe_of(mixed));
  auto listed = *plan;
  listed.stages[0].order.bands.reset();
  EXPECT_FALSE(recipe_of(listed));
  auto unnamed = *plan;
  unnamed.pipeline.stages[1].kernel.clear();
  EXPECT_FALSE(recipe_of(unnamed));
}

TEST_F(NamedRecipes, AreRefusedWhereTheyDoNotFit) {
  EXPECT_EQ(refusal(R"({"mechanism":"pdl","stages":[{"kernel":"gemm_1x1"},{"kernel":"gemm_1x1"}]})"),
            "error E0305: no kernel gemm_1x1 is registered, and a recipe names it\n"
            "   hint: register it (docs/extending.md), or name another");
  std::string const stages =
      R"("stages":[{"kernel":"gemm_128x192x64_2x1"},{"kernel":"gemm_128x256x64_2x1"}])";
  EXPECT_EQ(refusal(R"({"mechanism":"pdl_tiles",)" + stages +
                    R"(,"policies":[{"name":"A","map":["all","each"]},{"name":"B","map":["all","each"]}]})"),
            "error E0304: policies in the recipe: 2; dependences: 1\n"
            "   hint: give each dependence a policy, or leave \"policies\" out for the finest");
  EXPECT_EQ(
      refusal(R"({"mechanism":"pdl_tiles",)" + stages +
              R"(,"policies":[{"name":"A","map":{"table":[0,1]}}]})"),
      "error E0304: policy A does not suit the tiles of first: its table has 2 entries, and the producer 256 "
      "tiles\n   hint: give each dependence a policy, or leave \"policies\" out for the finest");
  EXPECT_EQ(refusal(R"({"mechanism":"psl",)" + stages + R"(,"band":1})"),
            "recipe:1: error E0252: \"mechanism\" in a recipe is not a known word: \"psl\"\n"
            "   known: stream_order, pdl, wait_kernel, pdl_tiles and fused\n"
            "   hint: did you mean \"pdl\"?\n"
            "recipe:1: error E0253: unknown member \"band\" in a recipe");
}

}  // namespace
}  // namespace tessera
