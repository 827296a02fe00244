// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <sstream>

#include "report/golden.hpp"
#include "report/samples.hpp"
#include "report/text.hpp"
#include "tessera/report/report.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

void expect_no_long_lines(std::string const& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(report::display_width(line), 100u) << line;
    EXPECT_TRUE(line.empty() || line.back() != ' ') << "blank at the end: " << line;
  }
}

TEST(Explain, SaysWhatWasChosenAndWhy) {
  expect_golden(explain(sample_plan()), "tests/report/golden/explain.txt");
}

TEST(Explain, PutsThePricedAlternativesFirstAndCheapestFirst) {
  auto const text = explain(sample_plan());
  auto const tile = text.find("wait kernel, TileSync: 18");
  auto const stream = text.find("stream order: 4 waves");
  auto const fused = text.find("fused, RowSync: the machine");
  EXPECT_LT(tile, stream);
  EXPECT_LT(stream, fused);
  EXPECT_NE(fused, std::string::npos);
}

TEST(Explain, ShowsAtMostSoManyAlternatives) {
  auto const text = explain(sample_plan(), 1);
  EXPECT_THAT(text, HasSubstr("and 2 more"));
  EXPECT_THAT(text, Not(HasSubstr("4 waves instead")));
}

TEST(Explain, KeepsLinesShortWhateverTheNamesAre) {
  auto plan = sample_plan();
  plan.pipeline.name =
      std::string(150, 'p') + " and a name of many words, many more words, and even more of them";
  plan.pipeline.stages[0].name = std::string(90, 's');
  plan.pipeline.stages[0].kernel = std::string(90, 'k');
  plan.stages[0].order.name = std::string(90, 'o');
  plan.semaphores[0].policy = std::string(90, 'y');
  plan.why = std::string(300, 'w') + " " + plan.why + plan.why + plan.why;
  plan.alternatives[0].description = std::string(300, 'd');
  expect_no_long_lines(explain(plan));
  expect_no_long_lines(explain_table({plan, plan}));
}

TEST(Explain, SaysWhichVariantOfAKernel) {
  auto plan = sample_plan();
  plan.stages[1].variant = "algorithm 7";
  EXPECT_THAT(explain(plan), HasSubstr("gemm_128x128x32 (algorithm 7)"));
}

TEST(Explain, SaysEachLaunchOfAMixedPlan) {
  auto plan = sample_plan();
  plan.pipeline.stages.push_back(sample_stage("gemm3"));
  plan.stages.resize(3);
  plan.launches = {{0, 2, LaunchStart::in_order, false, 4, {}}, {2, 1, LaunchStart::early, false, 0, {}}};
  auto const text = explain(plan);
  EXPECT_THAT(text, HasSubstr("four-sms: mixed: [gemm1 gemm2] > gemm3, RowSync"));
  EXPECT_THAT(text, HasSubstr("4 persistent blocks draw the tickets of gemm1, gemm2"));
  EXPECT_THAT(text, HasSubstr("gemm3; early"));
  expect_no_long_lines(text);
}

TEST(Explain, CountsWaitsAndPosts) {
  // 6 tiles of gemm2 wait for one row each; 6 tiles of gemm1 post once each.
  EXPECT_THAT(explain(sample_plan()), testing::ContainsRegex("gemm1 -> gemm2 +a +RowSync +2 +6 +6"));
}

TEST(Explain, SaysWhenNothingBeatsStreamOrder) {
  auto plan = sample_plan();
  plan.launches = launches_for(Mechanism::stream_order, 2);
  plan.dependences[0].semaphore_set = -1;
  plan.semaphores.clear();
  plan.predicted_us = plan.stream_order_us;
  EXPECT_THAT(explain(plan), HasSubstr("nothing beats stream order here"));
  EXPECT_THAT(explain(plan), HasSubstr("by stream order"));
}

TEST(ExplainTable, HasARowForEverySizeNamedByWhatDiffers) {
  auto small = sample_plan();
  small.pipeline.name = "llama-65b mlp, 64 tokens, tp 8";
  auto large = sample_plan();
  large.pipeline.name = "llama-65b mlp, 2048 tokens, tp 8";
  large.launches = launches_for(Mechanism::stream_order, 2);
  large.dependences[0].semaphore_set = -1;
  large.semaphores.clear();
  large.predicted_us = large.stream_order_us = 1234.5;
  auto const text = explain_table({small, large});
  expect_golden(text, "tests/report/golden/explain_table.txt");
  expect_no_long_lines(text);
}

TEST(ExplainTable, OfNothingIsNothing) { EXPECT_EQ(explain_table({}), ""); }

TEST(Dot, DrawsStagesAndDependences) { expect_golden(dot(sample_plan()), "tests/report/golden/stages.dot"); }

}  // namespace
}  // namespace tessera
