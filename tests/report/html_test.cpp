// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "report/balanced.hpp"
#include "report/samples.hpp"
#include "tessera/report/report.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

ReportEntry sample_entry() { return {sample_plan(), sample_tiles(), sample_stream_order()}; }

TEST(Html, IsOneWellFormedPageWithoutOutsideResources) {
  auto const page = html_report("figure 1", {sample_entry(), sample_entry()}, {"the profile is provisional"});
  expect_balanced(page);
  for (auto const* outside : {"http:", "https:", "src=", "@import", "<link", "fetch(", "import "})
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  EXPECT_THAT(page, HasSubstr("name=\"viewport\""));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(page, HasSubstr("the profile is provisional"));
}

TEST(Html, DrawsTimesOfLaunchesBesideTheSimulatedBlocks) {
  auto entry = sample_entry();
  entry.measured = sample_tiles();
  entry.measured.tiles.clear();
  entry.measured.measured = entry.measured.by_launch = true;
  auto const page = html_report("figure 1", {entry});
  expect_balanced(page);
  EXPECT_THAT(page, HasSubstr("<b>The same plan on a GPU, same scale</b> <span class=\"soft\">measured; "
                              "3.00 us, by launch</span>"));
  EXPECT_THAT(page, HasSubstr("<title>gemm2: 1.00 us to 3.00 us</title>"));
  EXPECT_THAT(html_report("figure 1", {sample_entry()}), Not(HasSubstr("on a GPU")));
}

TEST(Html, DrawsThePlanAndStreamOrderOnOneScale) {
  auto const page = html_report("figure 1", {sample_entry()});
  EXPECT_THAT(page, HasSubstr("Plan: wait kernel, RowSync"));
  EXPECT_THAT(page, HasSubstr("Best stream order, same scale"));
  // The plan ends at 3 of 4 us: its last block begins at half of the axis, stream order's at three quarters.
  EXPECT_THAT(page, HasSubstr("<rect class=\"edge\" x=\"50.000%\" width=\"25.000%\""));
  EXPECT_THAT(page, HasSubstr("<rect class=\"edge\" x=\"75.000%\" width=\"25.000%\""));
  EXPECT_THAT(page,
              HasSubstr("<rect class=\"w1\" x=\"27.500%\" width=\"7.500%\""));  // the wait: 1.1 to 1.4 us
}

TEST(Html, SaysEveryAlternativeAndReason) {
  auto const page = html_report("figure 1", {sample_entry()});
  for (auto const& other : sample_plan().alternatives) {
    EXPECT_THAT(page, HasSubstr(other.description));
    EXPECT_THAT(page, HasSubstr(other.reason));
  }
}

TEST(Html, EscapesWhatTheUserNamed) {
  auto entry = sample_entry();
  entry.plan.pipeline.stages[0].name = entry.timeline.stages[0].name = "<b>&\"'";
  auto const page = html_report("<script>alert(1)</script>", {entry}, {"<i>"});
  expect_balanced(page);
  EXPECT_THAT(page, Not(HasSubstr("<script>")));
  EXPECT_THAT(page, Not(HasSubstr("<b>&\"")));
}

TEST(Html, TheFragmentHasNoScript) {
  EXPECT_THAT(html_fragment(sample_entry()), Not(HasSubstr("<script")));
  EXPECT_THAT(html_report("figure 1", {sample_entry()}), HasSubstr("<details class=\"tiles\" hidden>"));
}

/// A gain is green where it is above what predictions are off.
TEST(Html, AGainBelowTheModelsErrorIsNotShownAsOne) {
  auto entry = sample_entry();
  EXPECT_THAT(html_report("", {entry}), HasSubstr("<span class=\"good\">25.0 %</span>"));
  entry.plan.predicted_us = 3.9;
  auto const page = html_report("", {entry});
  EXPECT_THAT(page, Not(HasSubstr("class=\"good\"")));
  EXPECT_THAT(page, HasSubstr("<b>2.5 %</b><span>less time, below the model's error of 5.0 %</span>"));
}

TEST(Html, TellsApartWhatTakesLongerAsLongAndWasRuledOut) {
  auto entry = sample_entry();
  entry.plan.alternatives.push_back({"wait kernel, RowSync, +T", 3.004, "no faster"});
  auto const page = html_report("", {entry});
  EXPECT_THAT(page, HasSubstr("<summary>2 candidates predicted to take longer</summary>"));
  EXPECT_THAT(page, HasSubstr("<summary>1 candidate predicted to take as long as the plan</summary>"));
  EXPECT_THAT(page, HasSubstr("<summary>1 candidate ruled out without a price</summary>"));
  EXPECT_THAT(page,
              HasSubstr("<dt>Margin</dt><dd>0.10 us to the next that is slower: wait kernel, TileSync</dd>"));
}

/// Such tiles on a GPU of 132 SMs, drawn in groups of them.
std::string page_of(std::vector<TileRecord> tiles, std::int64_t end) {
  auto entry = sample_entry();
  entry.timeline.sms = 132;
  entry.timeline.tiles = std::move(tiles);
  entry.timeline.end = end;
  entry.stream_order = {};
  return html_report("groups", {entry});
}

/// Eight small blocks that fill an SM together are as high as one large one.
TEST(Html, HeightsAreSharesOfAnSm) {
  std::vector<TileRecord> tiles;
  for (int sm = 0; sm < 132; ++sm) {
    tiles.push_back(sample_block(0, sm, sm, 0, 1'000'000));
    for (int slot = 0; slot < 8; ++slot)
      tiles.push_back(sample_block(1, 8 * sm + slot, sm, 1'000'000, 2'000'000));
  }
  auto const page = page_of(tiles, 2'000'000);
  // The whole machine's band is 72 high: each stage fills it, half of the time.
  EXPECT_THAT(page, HasSubstr("<path class=\"s0\" d=\"M0 0h120v72h-120z"));
  EXPECT_THAT(page, HasSubstr("<path class=\"s1\" d=\"M120 0h120v72h-120z"));
}

/// Two stages of one block to an SM that are resident together have half of it each: both are to be seen.
TEST(Html, StagesThatAreResidentTogetherShareTheSm) {
  std::vector<TileRecord> tiles;
  for (int sm = 0; sm < 132; ++sm)
    for (int stage = 0; stage < 2; ++stage) tiles.push_back(sample_block(stage, sm, sm, 0, 1'000'000));
  auto const page = page_of(tiles, 1'000'000);
  EXPECT_THAT(page, HasSubstr("<path class=\"s0\" d=\"M0 36h240v36h-240z"));
  EXPECT_THAT(page, HasSubstr("<path class=\"s1\" d=\"M0 0h240v36h-240z"));
}

/// Around launches every stage of one has the times of all: rates are those of what was simulated.
TEST(Html, RatesAreNotTakenFromTimesOfLaunches) {
  auto entry = sample_entry();
  entry.measured = sample_tiles();
  entry.measured.measured = true;
  EXPECT_THAT(html_report("", {entry}), HasSubstr("<p class=\"soft\">Measured, from where"));
  entry.measured.by_launch = true;
  entry.measured.tiles.clear();
  EXPECT_THAT(html_report("", {entry}), HasSubstr("<p class=\"soft\">Simulated, from where"));
}

TEST(Html, WhatIsTooMuchToListIsNotSaidToBeAll) {
  auto entry = sample_entry();
  EXPECT_THAT(html_report("", {entry}), HasSubstr("\"boxes\": [[[0, 3, 0, 1]],"));
  entry.plan.dependences[0].semaphore_set = -1;
  EXPECT_THAT(html_report("", {entry}), HasSubstr("\"boxes\": []}"));
  entry = sample_entry();
  auto& accesses = entry.plan.pipeline.dependences[0].accesses;
  accesses.assign(5000, accesses.front());  // 6 tiles of them
  EXPECT_THAT(html_report("", {entry}), HasSubstr("\"boxes\": null}"));
}

TEST(Html, StaysSmallForAWholeGpu) {
  auto entry = sample_entry();
  for (auto* timeline : {&entry.timeline, &entry.stream_order}) {
    timeline->sms = 132;
    timeline->tiles.clear();
    for (int i = 0; i < 100'000; ++i)
      timeline->tiles.push_back(
          sample_block(i % 2, 0, i % 132, (i / 132) * 1'000'000LL, (i / 132 + 1) * 1'000'000LL));
    timeline->end = (100'000 / 132 + 1) * 1'000'000LL;
  }
  auto const page = html_report("large", {entry});
  expect_balanced(page);
  EXPECT_LT(page.size(), 600'000u);
  EXPECT_THAT(page, HasSubstr(">SM 0-3</span>"));
}

TEST(Html, AcceptsNothing) {
  expect_balanced(html_report("empty", {}));
  ReportEntry entry = sample_entry();
  entry.timeline = {};
  entry.stream_order = {};
  expect_balanced(html_report("no timelines", {entry}));
}

}  // namespace
}  // namespace tessera
