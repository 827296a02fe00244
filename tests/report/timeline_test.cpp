// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>

#include "report/golden.hpp"
#include "report/samples.hpp"
#include "support/plans.hpp"
#include "tessera/report/report.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;

TEST(Draw, ShowsFigureOneOfThePaper) {
  auto const machine = support::ideal_machine(4);
  std::string text;
  for (auto const mechanism : {Mechanism::stream_order, Mechanism::wait_kernel}) {
    auto const plan =
        support::make_plan(support::figure_one(), machine, mechanism, support::Policy::row_sync);
    auto const timeline = simulate(plan, machine);
    ASSERT_TRUE(timeline) << to_text(timeline.error());
    EXPECT_EQ(timeline->waves, mechanism == Mechanism::stream_order ? 4 : 3);
    text += (text.empty() ? "" : "\n") + draw(*timeline);
  }
  expect_golden(text, "tests/report/golden/figure1.txt");
}

TEST(Draw, ShowsWaits) { expect_golden(draw(sample_tiles()), "tests/report/golden/waits.txt"); }

TEST(Draw, SurvivesAnEmptyTimelineAndOddWidths) {
  EXPECT_THAT(draw(Timeline{}), HasSubstr("0.00 us"));
  for (int const columns : {-5, 0, 1, 20, 37, 1000})
    EXPECT_THAT(draw(sample_tiles(), columns), HasSubstr("SM 3"));
}

TEST(Draw, StopsAtFortyEightRows) {
  auto timeline = sample_tiles();
  timeline.sms = 60;
  for (int sm = 0; sm < 60; ++sm) timeline.tiles.push_back(sample_block(0, 0, sm, 0, 1'000'000));
  EXPECT_THAT(draw(timeline), HasSubstr("and 12 more rows"));
}

TEST(Csv, HasUnitsInTheHeaderAndOneRowPerBlock) {
  auto const text = timeline_csv(sample_tiles());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 13);
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "stage,tile,coordinates,split,gpu,sm,slot,started_ns,ready_ns,loaded_ns,stored_ns,posted_ns,"
            "waiting_ns");
  EXPECT_THAT(text,
              HasSubstr("\ngemm2,0,\"0,0\",0,0,2,0,1000.000,1400.000,1800.000,1900.000,2000.000,300.000\n"));
}

TEST(Csv, KeepsPicosecondsAndQuotesNames) {
  auto timeline = sample_tiles();
  timeline.stages[0].name = "a \"b\", c";
  timeline.tiles[0].posted = 1'000'001;
  EXPECT_THAT(timeline_csv(timeline), HasSubstr("\n\"a \"\"b\"\", c\",0,\"0,0\","));
  EXPECT_THAT(timeline_csv(timeline), HasSubstr(",1000.001,"));
}

TEST(Diff, SaysWhatMoved) {
  expect_golden(diff(sample_stream_order(), sample_tiles()), "tests/report/golden/diff.txt");
}

TEST(Diff, NamesStagesThatOnlyOneSideHas) {
  auto after = sample_tiles();
  after.stages[1].name = "other";
  auto const text = diff(sample_stream_order(), after);
  EXPECT_THAT(text, testing::ContainsRegex("gemm2 +only before"));
  EXPECT_THAT(text, testing::ContainsRegex("other +only after"));
}

TEST(Diff, NamesVariantsThatDiffer) {
  auto before = sample_tiles(), after = before;
  EXPECT_THAT(diff(before, after), testing::Not(HasSubstr("variant")));
  after.stages[0].variant = "algorithm 7";
  EXPECT_THAT(diff(before, after), HasSubstr("gemm1: first choice -> algorithm 7\n"));
  before.stages[0].variant = "algorithm 3";
  EXPECT_THAT(diff(before, after), HasSubstr("gemm1: algorithm 3 -> algorithm 7\n"));
}

TEST(Summary, GivesTotalsAndStages) {
  expect_golden(summary(sample_tiles()), "tests/report/golden/summary.txt");
}

}  // namespace
}  // namespace tessera
