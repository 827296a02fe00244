// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

#include "report/samples.hpp"
#include "tessera/report/report.hpp"

namespace tessera {
namespace {

using nlohmann::json;

json trace(Timeline const& timeline, Plan const* plan = nullptr) {
  return json::parse(perfetto_trace(timeline, plan));  // throws, and so fails, unless it is JSON
}

std::vector<json> events_of(json const& document, std::string const& phase) {
  std::vector<json> found;
  for (auto const& event : document["traceEvents"])
    if (event["ph"] == phase) found.push_back(event);
  return found;
}

std::int64_t ns(json const& value) { return std::llround(value.get<double>() * 1000); }

TEST(Trace, HasATrackForEverySlotAndASliceForEveryBlock) {
  auto const document = trace(sample_tiles());
  int names = 0;
  for (auto const& event : events_of(document, "M")) names += event["name"] == "thread_name";
  EXPECT_EQ(names, 4);
  int blocks = 0;
  for (auto const& event : events_of(document, "X")) blocks += event.contains("args");
  EXPECT_EQ(blocks, 12);
}

TEST(Trace, NestsSlicesOnEachTrack) {
  auto timeline = sample_tiles();
  // Odd picoseconds, where rounding could make neighbours overlap.
  for (auto& tile : timeline.tiles) {
    tile.ready += 333;
    tile.loaded += 501;
    tile.stored += 777;
  }
  std::map<int, std::vector<std::pair<std::int64_t, std::int64_t>>> open;
  auto const document = trace(timeline);
  for (auto const& event : events_of(document, "X")) {
    auto const begin = ns(event["ts"]);
    auto const end = begin + ns(event["dur"]);
    auto& stack = open[event["tid"]];
    while (!stack.empty() && stack.back().second <= begin) stack.pop_back();
    if (!stack.empty()) {
      EXPECT_LE(end, stack.back().second) << event;
    }
    stack.emplace_back(begin, end);
  }
  EXPECT_EQ(open.size(), 4u);
}

TEST(Trace, DrawsAnArrowFromTheLastPostToTheWait) {
  auto const plan = sample_plan();
  auto const document = trace(sample_tiles(), &plan);
  auto const starts = events_of(document, "s");
  auto const ends = events_of(document, "f");
  ASSERT_EQ(starts.size(), 1u);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(starts[0]["id"], ends[0]["id"]);
  EXPECT_EQ(ends[0]["tid"], 3);         // SM 2
  EXPECT_EQ(ns(ends[0]["ts"]), 1400);   // when the wait was over
  EXPECT_EQ(ns(starts[0]["ts"]), 900);  // a tile of gemm1's row 0
}

TEST(Trace, LeavesArrowsOutWhenThePlanIsAnother) {
  auto plan = sample_plan();
  plan.pipeline.stages[0].grid[0].extent = 2;
  auto const document = trace(sample_tiles(), &plan);
  EXPECT_TRUE(events_of(document, "s").empty());
}

TEST(Trace, CountsResidentBlocksDownToZero) {
  auto const document = trace(sample_tiles());
  auto const counters = events_of(document, "C");
  ASSERT_FALSE(counters.empty());
  int most_waiting = 0;
  for (auto const& event : counters) {
    int const working = event["args"]["working"];
    int const waiting = event["args"]["waiting"];
    EXPECT_GE(working, 0);
    EXPECT_LE(working + waiting, 4);
    most_waiting = std::max(most_waiting, waiting);
  }
  EXPECT_EQ(most_waiting, 1);
  EXPECT_EQ(counters.back()["args"]["working"], 0);
}

TEST(Trace, QuotesNames) {
  auto timeline = sample_tiles();
  timeline.stages[0].name = "a\"b\\c\n\xff";
  timeline.pipeline = "\"";
  EXPECT_NO_THROW(trace(timeline));
}

TEST(Trace, OfNothingIsStillATrace) { EXPECT_TRUE(trace(Timeline{})["traceEvents"].is_array()); }

}  // namespace
}  // namespace tessera
