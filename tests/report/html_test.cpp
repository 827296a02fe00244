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
  for (auto const* outside : {"http:", "https:", "src=", "@import", "<link", "<script"})
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
