// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/plan_json.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "plan/examples.hpp"
#include "support/plans.hpp"
#include "support/random_pipeline.hpp"
#include "tessera/plan/build.hpp"
#include "tessera/plan/choose.hpp"
#include "tessera/plan/orders.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string read(fs::path const& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Everything that others ask of a plan is the same.
void expect_same(Plan const& a, Plan const& b) {
  EXPECT_EQ(a.pipeline, b.pipeline);
  EXPECT_EQ(a.machine, b.machine);
  EXPECT_EQ(a.machine_values, b.machine_values);
  EXPECT_EQ(a.launches, b.launches);
  EXPECT_EQ(a.stages, b.stages);
  EXPECT_EQ(a.reuse_edges, b.reuse_edges);
  EXPECT_EQ(a.proof, b.proof);
  EXPECT_EQ(a.predicted_us, b.predicted_us);
  EXPECT_EQ(a.stream_order_us, b.stream_order_us);
  EXPECT_EQ(a.bound_by, b.bound_by);
  EXPECT_EQ(a.why, b.why);
  EXPECT_EQ(a.alternatives, b.alternatives);
  ASSERT_EQ(a.semaphores.size(), b.semaphores.size());
  for (std::size_t i = 0; i < a.semaphores.size(); ++i) {
    EXPECT_EQ(a.semaphores[i].producer, b.semaphores[i].producer);
    EXPECT_EQ(a.semaphores[i].policy, b.semaphores[i].policy);
    EXPECT_EQ(a.semaphores[i].first, b.semaphores[i].first);
    EXPECT_EQ(a.semaphores[i].count, b.semaphores[i].count);
    EXPECT_TRUE(same_map(a.semaphores[i].map, b.semaphores[i].map));
  }
  ASSERT_EQ(a.dependences.size(), b.dependences.size());
  for (std::size_t d = 0; d < a.dependences.size(); ++d) {
    EXPECT_EQ(a.dependences[d].dependence, b.dependences[d].dependence);
    EXPECT_EQ(a.dependences[d].semaphore_set, b.dependences[d].semaphore_set);
  }
}

Expected<Plan> built(Pipeline const& pipeline, Recipe const& recipe, MachineProfile const& machine) {
  auto const checked = check(pipeline);
  if (!checked) return tl::make_unexpected(checked.error());
  return build_plan(*checked, machine, recipe);
}

TEST(PlanJson, bands_are_stored_and_their_table_is_not) {
  auto const pipeline = examples::mlp(8, 8, 4);
  auto plan = built(pipeline, {}, examples::machine_of(4));
  ASSERT_TRUE(plan) << to_text(plan.error());
  plan->stages[0].order = make_band_order(pipeline.stages[0], {2, 2, 1});
  plan->stages[0].custom_order = true;
  auto const text = print_plan(*plan);
  EXPECT_EQ(text.find("\"table\""), std::string::npos);
  auto const again = parse_plan(text, "plan.json");
  ASSERT_TRUE(again) << to_text(again.error());
  expect_same(*plan, *again);
}

TEST(PlanJson, a_variant_is_printed_where_there_is_one) {
  auto plan = support::make_plan(support::figure_one(), support::ideal_machine(4), Mechanism::pdl_tiles);
  EXPECT_EQ(print_plan(plan).find("variant"), std::string::npos);
  plan.stages[1].variant = "algorithm 7";
  auto const again = parse_plan(print_plan(plan), "plan.json");
  ASSERT_TRUE(again) << to_text(again.error());
  EXPECT_EQ(again->stages, plan.stages);
}

TEST(PlanJson, a_chosen_plan_reads_back_the_same) {
  auto const machine = examples::machine_of(4);
  auto pipeline = examples::mlp(8, 16, 4, 2);
  pipeline.where = {"mlp.cpp", 7};
  pipeline.dependences[0].where = {"mlp.cpp", 12};
  auto const checked = check(pipeline);
  ASSERT_TRUE(checked);
  auto const plan = choose(*checked, machine, [&](Plan const& p) { return simulate(p, machine, {false}); });
  ASSERT_TRUE(plan);
  auto const text = print_plan(*plan);
  auto const again = parse_plan(text, "plan.json");
  ASSERT_TRUE(again) << to_text(again.error());
  expect_same(*plan, *again);
  EXPECT_EQ(print_plan(*again), text);
}

TEST(PlanJson, merged_tickets_and_orders_read_back_the_same) {
  Recipe recipe;
  recipe.mechanism = Mechanism::fused;
  recipe.as_needed_order = true;
  recipe.merged_tickets = true;
  auto const plan = built(examples::attention_scores(6, 8), recipe, examples::machine_of(2));
  ASSERT_TRUE(plan);
  ASSERT_FALSE(plan->launches.front().tickets.empty());
  ASSERT_FALSE(plan->stages[0].order.table.empty());
  auto const again = parse_plan(print_plan(*plan), "plan.json");
  ASSERT_TRUE(again) << to_text(again.error());
  expect_same(*plan, *again);
}

RC_GTEST_PROP(PlanJson, plans_of_random_pipelines_read_back_the_same, ()) {
  random::Options options;
  options.reuse_buffers = true;
  auto const pipeline = *random::pipelines(options);
  RC_PRE(check(pipeline).has_value());
  Recipe recipe;
  recipe.mechanism = *rc::gen::element(Mechanism::stream_order, Mechanism::pdl, Mechanism::wait_kernel,
                                       Mechanism::pdl_tiles, Mechanism::fused);
  recipe.as_needed_order = *rc::gen::arbitrary<bool>();
  recipe.merged_tickets = *rc::gen::arbitrary<bool>();
  auto const plan = built(pipeline, recipe, examples::machine_of(4));
  if (!plan) return;  // could get stuck
  auto const text = print_plan(*plan);
  auto const again = parse_plan(text, "plan.json");
  if (!again) RC_FAIL(to_text(again.error()));
  RC_ASSERT(print_plan(*again) == text);
  for (int d = 0; d < static_cast<int>(pipeline.dependences.size()); ++d) {
    auto const consumer =
        static_cast<std::size_t>(pipeline.dependences[static_cast<std::size_t>(d)].consumer);
    for (std::int64_t tile = 0; tile < pipeline.stages[consumer].tiles(); ++tile) {
      auto const a = awaited_by(*plan, d, tile), b = awaited_by(*again, d, tile);
      RC_ASSERT(a.size() == b.size());
      for (std::size_t i = 0; i < a.size(); ++i)
        RC_ASSERT(a[i].semaphore == b[i].semaphore && a[i].value == b[i].value);
    }
  }
}

/// Each tests/rejected/plan/<name>.json has its exact diagnostics in <name>.txt.
class RejectedPlan : public testing::TestWithParam<fs::path> {};

TEST_P(RejectedPlan, is_refused_in_these_words) {
  auto const plan = parse_plan(read(GetParam()), GetParam().filename().string());
  ASSERT_FALSE(plan) << "accepted";
  auto expected = GetParam();
  expected.replace_extension(".txt");
  EXPECT_EQ(to_text(plan.error()) + "\n", read(expected));
}

std::vector<fs::path> rejected() {
  std::vector<fs::path> paths;
  for (auto const& entry : fs::directory_iterator(fs::path(TESSERA_SOURCE_DIR) / "tests/rejected/plan"))
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

INSTANTIATE_TEST_SUITE_P(Corpus, RejectedPlan, testing::ValuesIn(rejected()), [](auto const& path) {
  auto name = path.param.stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(RejectedPlans, are_many) { EXPECT_GE(rejected().size(), 8u); }

}  // namespace
}  // namespace tessera
