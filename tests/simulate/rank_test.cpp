// SPDX-License-Identifier: Apache-2.0
// Plans by simulation, at one clock: what `tessera plan` and "as planned" are.
#include "tessera/simulate/rank.hpp"

#include <gmock/gmock.h>

#include <algorithm>

#include "plan/llama.hpp"
#include "support/cases.hpp"
#include "support/stopwatch.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/plan/build.hpp"
#include "tessera/plan/plan_json.hpp"
#include "tessera/plan/progress.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/simulate/in_turns.hpp"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// GPT-3's MLP on one of eight GPUs.
OperatorGraph gpt3_mlp(std::int64_t tokens) {
  auto graph = examples::llama_mlp(tokens);
  graph.operators[0].epilogue = Epilogue::gelu;
  graph.operators[0].n = graph.operators[1].k = 6144;
  graph.operators[0].k = graph.operators[1].n = 12288;
  return graph;
}

std::vector<Plan> ranked(OperatorGraph const& graph, PlanOptions const& options,
                         Registry const& kernels = shipped_kernels()) {
  auto const machine = tessera::machine("h200").value();
  auto plans = rank_by_simulation(graph, kernels, machine, options);
  EXPECT_TRUE(plans) << to_text(plans.error());
  return plans ? *plans : std::vector<Plan>{};
}

PlanOptions keeping(int plans, bool chained = false) {
  PlanOptions options;
  options.keep = plans;
  options.chained = chained;
  return options;
}

TEST(Rank, GivesDistinctProvedPlansInOrder) {
  auto const machine = tessera::machine("h200").value();
  auto const plans = ranked(gpt3_mlp(512), keeping(24));
  ASSERT_EQ(plans.size(), 24u);
  std::vector<std::string> texts;
  for (auto plan : plans) {
    EXPECT_GT(plan.predicted_us, 0);
    EXPECT_FALSE(plan.proof.empty());
    EXPECT_TRUE(prove_progress(plan, machine));
    EXPECT_TRUE(parse_plan(print_plan(plan), "plan.json"));
    plan.predicted_us = 0;
    plan.alternatives.clear();
    plan.why = plan.bound_by = "";
    texts.push_back(print_plan(plan));
  }
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(std::unique(texts.begin(), texts.end()), texts.end());
  EXPECT_TRUE(std::is_sorted(plans.begin(), plans.end(),
                             [](Plan const& a, Plan const& b) { return a.predicted_us < b.predicted_us; }));
  auto const one = choose_by_simulation(gpt3_mlp(512), shipped_kernels(), machine, {});
  ASSERT_TRUE(one);
  EXPECT_EQ(describe(*one), describe(plans.front()));
  EXPECT_EQ(one->predicted_us, plans.front().predicted_us);
}

TEST(Rank, TakesAnyNumberOfTokens) {
  for (std::int64_t const tokens : {129, 300, 1000})
    EXPECT_EQ(ranked(gpt3_mlp(tokens), keeping(2)).size(), 2u);
}

TEST(Rank, ChoosesBandsAndPersistentGrids) {
  auto const best = ranked(gpt3_mlp(2048), keeping(1)).front();
  for (auto const& stage : best.stages) {
    EXPECT_TRUE(stage.order.bands) << describe(best);
    EXPECT_EQ(stage.persistent_blocks, 132) << describe(best);
  }
  bool columns = false, tiles = false;
  for (auto const& plan : ranked(gpt3_mlp(512), keeping(60))) {
    for (auto const& stage : plan.stages)
      columns = columns || (stage.order.bands && stage.order.bands->rows == 0);
    tiles = tiles || (!plan.semaphores.empty() && plan.stages[1].persistent_blocks > 0);
  }
  EXPECT_TRUE(columns);
  EXPECT_TRUE(tiles);
}

TEST(Rank, GivesEachKernelOnlyBandsThatItKnows) {
  Registry narrow;
  ASSERT_TRUE(narrow.add(*shipped_kernels().find("gemm_128x168x64_2x1")));
  for (auto const& plan : ranked(gpt3_mlp(4096), keeping(40), narrow))
    for (auto const& stage : plan.stages) {
      ASSERT_TRUE(stage.order.bands);
      EXPECT_TRUE(stage.order.bands->rows == 1 || stage.order.bands->rows == 8) << stage.order.bands->rows;
    }
}

TEST(Rank, ChainsWhereAskedForAndGainsByIt) {
  auto const alone = ranked(gpt3_mlp(512), keeping(1)).front();
  auto const chained = ranked(gpt3_mlp(512), keeping(1, true)).front();
  EXPECT_EQ(alone.launches.front().start, LaunchStart::in_order);
  EXPECT_EQ(chained.launches.front().start, LaunchStart::early);
  EXPECT_LT(chained.predicted_us, alone.predicted_us);
  EXPECT_THAT(describe(chained), HasSubstr(", chained"));
}

TEST(Rank, ChainsASingleStageToo) {
  auto graph = gpt3_mlp(512);
  graph.operators.pop_back();
  EXPECT_EQ(ranked(graph, keeping(1, true)).front().launches.front().start, LaunchStart::early);
}

// At clocks of their own, 256 x 192 tiles draw less than 128 x 192, and make the most of it.
TEST(Rank, PricesAllAtOneClock) {
  auto const machine = tessera::machine("h200").value();
  auto const only = [&](char const* name) {
    Registry registry;
    EXPECT_TRUE(registry.add(*shipped_kernels().find(name)));
    auto options = keeping(1);
    options.mechanisms = {Mechanism::stream_order};
    auto plans = ranked(gpt3_mlp(4096), options, registry);
    return plans.front();
  };
  auto const wide = only("gemm_256x192x64_2x1"), narrow = only("gemm_128x192x64_2x1");
  auto const shared = at_shared_clock({wide, narrow}, machine);
  auto const ratio = [&](MachineProfile const& at) {
    return static_cast<double>(simulate(wide, at).value().end) /
           static_cast<double>(simulate(narrow, at).value().end);
  };
  EXPECT_GT(ratio(shared), 1.01 * ratio(machine));
  EXPECT_EQ(shared.power_limit_w, 0);
  EXPECT_LT(shared.clock_ghz, machine.clock_ghz);
  auto unlimited = machine;
  unlimited.power_limit_w = 0;
  EXPECT_EQ(at_shared_clock({wide}, unlimited), unlimited);
}

TEST(Rank, TakesBothProductsInOneLaunchForFewRows) {
  auto const plan = ranked(examples::llama_mlp(16), keeping(1)).front();
  EXPECT_EQ(plan.pipeline.stages[0].kernel, "few_tokens_16");
  ASSERT_EQ(plan.launches.size(), 1u);
  EXPECT_EQ(plan.launches.front().workers, 132);
  EXPECT_EQ(ranked(examples::llama_mlp(256), keeping(1)).front().launches.size(), 2u);
  auto fp32 = examples::llama_mlp(16);
  fp32.operators[1].n = 4096;  // no MLP any more
  EXPECT_EQ(ranked(fp32, keeping(1)).front().launches.size(), 2u);
}

TEST(Rank, TakesLibrariesWhereTheyWereMeasured) {
  auto const machine = tessera::machine("h200").value();
  auto const uses = [](std::vector<Plan> const& plans) {
    return std::any_of(plans.begin(), plans.end(), [](Plan const& plan) {
      return plan.pipeline.stages[0].kernel == "cublaslt" || plan.pipeline.stages[1].kernel == "cublaslt";
    });
  };
  auto const all = keeping(200);
  EXPECT_FALSE(uses(rank_by_simulation(gpt3_mlp(512), shipped_kernels(), machine, all).value()));
  auto measured = machine;
  measured.kernels["cublaslt"] = {};
  EXPECT_TRUE(uses(rank_by_simulation(gpt3_mlp(512), shipped_kernels(), measured, all).value()));
}

TEST(Rank, PlansPairsInASecond) {
  for (auto const tokens : {256, 2048, 4096}) {
#ifdef NDEBUG
    double const bound = 1;
#else
    double const bound = 30;
#endif
    EXPECT_LT(support::least_seconds(bound, [&] { (void)ranked(gpt3_mlp(tokens), keeping(30, true)); }),
              bound)
        << tokens;
  }
}

TEST(Rank, RefusesAsThePlannerDoes) {
  auto const machine = tessera::machine("h200").value();
  auto const none = rank_by_simulation(gpt3_mlp(512), Registry{}, machine);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().front().code, "E0305");
}

/// Some columns and rows of tiles that each read their neighbours, and their rows, of the stage before.
Pipeline two_fields(std::int64_t extent, int reach) {
  Pipeline pipeline;
  pipeline.name = "fields";
  for (char const* name : {"first", "second"}) {
    Stage stage;
    stage.name = name;
    stage.output = stage.name + "_out";
    stage.grid = {{"x", extent}, {"y", extent}};
    stage.resources = {256, 40, 0};
    pipeline.stages.push_back(stage);
  }
  pipeline.stages[1].operands = {{"before", "first_out", 0, 0}};
  auto const around = [&](int dimension) {
    auto const at = TileExpr::dimension(dimension);
    return TileRange{at - TileExpr::constant(reach), at + TileExpr::constant(reach + 1), true};
  };
  pipeline.dependences = {
      {1, 0, "before", {{{around(0), around(1)}}}, OnComplete::release_waiters, {"fields.cpp", 2}, {}}};
  return pipeline;
}

TEST(Rank, RefusesBeforeItBeginsWhatWouldTakeSeconds) {
  auto const machine = tessera::machine("h200").value();
  auto const refusal = [&](Expected<CheckedPipeline> const& checked, PlanOptions const& options = {}) {
    EXPECT_TRUE(checked) << to_text(checked.error());
    int priced = 0;
    auto const plans = rank_by_simulation(*checked, machine, options, [&](double) { ++priced; });
    EXPECT_TRUE(plans || priced == 0);
    return plans ? std::string() : to_text(plans.error());
  };
  EXPECT_EQ(
      refusal(check(two_fields(1000, 50))),
      R"(error E0504: to plan fields, some 23 million blocks would be simulated, all candidates together; at most 10 million are
   8 million of them stand for lists of the tiles that a tile waits for: stream order and PDL have none
   hint: plan a smaller problem of the same shape: with hundreds of waves, time grows as the work does)");
  if (support::k_sanitized) return;  // what is within the limits takes long there
  PlanOptions without_lists;
  without_lists.mechanisms = {Mechanism::stream_order, Mechanism::pdl};
  EXPECT_EQ(
      refusal(check(two_fields(1000, 50)), without_lists),
      R"(error E0504: to plan fields, some 15 million blocks would be simulated, all candidates together; at most 10 million are
   hint: plan a smaller problem of the same shape: with hundreds of waves, time grows as the work does)");

  // Many accesses of few tiles: what each tile waits for is found for every candidate.
  auto scattered = two_fields(24, 0);
  for (int i = 1; i < 1000; ++i) {
    auto access = scattered.dependences[0].accesses[0];
    for (auto& range : access.ranges) {
      range.begin = modulo(range.begin + TileExpr::constant(7 * i), 24);
      range.end = range.begin + TileExpr::constant(1);
    }
    scattered.dependences[0].accesses.push_back(access);
  }
  EXPECT_THAT(refusal(check(scattered)),
              AllOf(HasSubstr("lists of the tiles"), HasSubstr("hint: let tiles read fewer others")));
  scattered.dependences[0].accesses.resize(100);
  EXPECT_EQ(refusal(check(scattered)), "");

  // A loop says how many iterations are within.
  Loop steps;
  steps.body = two_fields(300, 1);
  EXPECT_THAT(refusal(check(steps, 5)), HasSubstr("hint: plan 4 iterations, as more of them repeat"));
  EXPECT_THAT(refusal(check(steps, 50)), HasSubstr("hint: plan 4 iterations, as more of them repeat"));
  steps.body = two_fields(1, 1);
  steps.body.stages.pop_back();
  steps.body.dependences.clear();
  EXPECT_EQ(refusal(check(steps, 600)), "");
  EXPECT_THAT(
      refusal(check(steps, 1000)),
      HasSubstr("\n   499500 times a stage overwrites what an earlier one used, and is to wait for it"));
}

}  // namespace
}  // namespace tessera
