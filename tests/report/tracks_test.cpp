// SPDX-License-Identifier: Apache-2.0
// Timelines with tracks, counters and causes of waits: every reader shows or skips them.
#include <gmock/gmock.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "report/balanced.hpp"
#include "report/golden.hpp"
#include "report/samples.hpp"
#include "tessera/report/report.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

/// The sample's blocks with causes, a copy engine, a link and two bins of traffic. Later blocks start `late`
/// picoseconds later.
Timeline with_tracks(std::int64_t late = 0) {
  auto timeline = sample_tiles();
  timeline.end += late;
  for (auto& tile : timeline.tiles) {
    auto const shift = tile.started >= 2'000'000 ? late : 0;
    for (auto* time : {&tile.started, &tile.ready, &tile.loaded, &tile.stored, &tile.posted}) *time += shift;
    tile.causes = {tile.waiting, 0, tile.waiting, 40'000};
  }
  timeline.stages[1].last_end += late;
  timeline.tracks = {{"copy engine", "chunk", 0}, {"link to GPU 3", "chunk", 0}};
  timeline.spans = {{0, 1, 1'000'000, 1'500'000, 8, 4096},
                    {1, 0, 200'000, 1'200'000, 16, 8192},
                    {1, 1, 1'600'000, 2'000'000 + late, 8, 4096}};
  timeline.counters = {{"DRAM", 0, 1'500'000, {"reads", "writes"}, {3000, 0, 1500, 4500}}};
  return timeline;
}

std::string refusal(std::function<void(Timeline&)> const& change) {
  auto timeline = with_tracks();
  change(timeline);
  auto const parsed = parse_timeline(print_timeline(timeline), "run.json");
  return parsed ? "accepted" : to_text(parsed.error());
}

TEST(Tracks, AreInTheFileAndBack) {
  auto const timeline = with_tracks();
  auto const parsed = parse_timeline(print_timeline(timeline), "run.json");
  ASSERT_TRUE(parsed) << to_text(parsed.error());
  EXPECT_EQ(*parsed, timeline);
  EXPECT_THAT(print_timeline(sample_tiles()),
              testing::AllOf(Not(HasSubstr("tracks")), Not(HasSubstr("operands_ps"))))
      << "nothing is said of what is not there";
}

TEST(Tracks, ThatContradictTheRestAreRefused) {
  EXPECT_EQ(refusal([](auto&) {}), "accepted");
  auto const expect = [](std::function<void(Timeline&)> const& change, std::string const& said) {
    EXPECT_THAT(refusal(change), testing::AllOf(HasSubstr("E0706"), HasSubstr(said)));
  };
  expect([](auto& t) { t.spans[2].track = 2; }, "track 2 of 2");
  expect([](auto& t) { t.spans[2].to = 9'000'000; }, "from <= to <= end");
  expect([](auto& t) { t.spans[2].from = 1'100'000; }, "spans of one track overlap");
  expect([](auto& t) { std::swap(t.spans[0], t.spans[1]); }, "spans are out of order");
  expect([](auto& t) { t.counters[0].bytes.pop_back(); }, "3 values of 2 classes");
  expect([](auto& t) { t.counters[0].classes.clear(); }, "4 values of 0 classes");
  expect([](auto& t) { ++t.tiles[6].causes.operands; }, "do not add up");
  expect([](auto& t) { t.tiles[6].causes.before_ready += 1; }, "before it is ready");
  expect([](auto& t) { t.tiles[0].causes.stores = 200'000; }, "longer for its stores");
  EXPECT_THAT(refusal([](auto& t) { t.tracks[1].gpu = 1; }), HasSubstr("E0703"));
  EXPECT_THAT(refusal([](auto& t) { t.counters[0].bin = 0; }), HasSubstr("E0703"));
  auto text = print_timeline(with_tracks());
  text.replace(text.find("\"transfers\""), 11, "\"transfres\"");
  EXPECT_THAT(to_text(parse_timeline(text, "run.json").error()), HasSubstr("\"span_columns\" differ"));
}

TEST(Tracks, AreInTheTraceBesideTheSmsWithRates) {
  auto const document = nlohmann::json::parse(perfetto_trace(with_tracks()));
  std::map<std::string, int> threads;
  std::vector<nlohmann::json> transfers, rates;
  for (auto const& event : document["traceEvents"]) {
    if (event["name"] == "thread_name") threads[event["args"]["name"]] = event["tid"];
    if (event.value("cat", "") == "transfer") transfers.push_back(event);
    if (event["name"] == "DRAM GB/s") rates.push_back(event);
  }
  ASSERT_EQ(threads.size(), 6U) << "four SMs and two tracks";
  EXPECT_GT(threads["copy engine"], threads["SM 3"]);
  ASSERT_EQ(transfers.size(), 3U);
  EXPECT_EQ(transfers[0]["name"], "chunk 1");
  EXPECT_EQ(transfers[0]["tid"], threads["copy engine"]);
  EXPECT_EQ(transfers[0]["args"]["bytes"], 4096);
  ASSERT_EQ(rates.size(), 2U);
  EXPECT_EQ(rates[0]["args"]["reads"], 2.0) << "3000 bytes in 1.5 us";
  EXPECT_EQ(rates[1]["ts"], 1.5);
  EXPECT_EQ(rates[1]["args"]["writes"], 3.0);
}

TEST(Tracks, AreRowsOfTheTable) {
  auto const csv = timeline_csv(with_tracks());
  EXPECT_THAT(csv, HasSubstr("waiting_ns,operands_ns,matrix_unit_ns,stores_ns\n"));
  EXPECT_THAT(csv, HasSubstr("\nlink to GPU 3,1,chunk 1,0,0,,,1600.000,1600.000,2000.000,2000.000,2000.000,"
                             "0.000,0.000,0.000,0.000\n"));
  EXPECT_THAT(timeline_csv(sample_tiles()), Not(HasSubstr("operands")));
}

TEST(Tracks, AreDrawnAsText) {
  EXPECT_THAT(draw(with_tracks(), 30), HasSubstr("copy engine              11111\n"));
}

TEST(Tracks, AreInTheSummaryAndTheDifference) {
  expect_golden(summary(with_tracks()) + "\n" + diff(with_tracks(), with_tracks(250'000)) + "\n" +
                    diff(sample_tiles(), with_tracks()),
                "tests/report/golden/tracks.txt");
}

TEST(Tracks, AreOnThePage) {
  auto const page = timeline_html(with_tracks(), {"a <note>"});
  expect_balanced(page);
  EXPECT_THAT(page, HasSubstr("a &lt;note&gt;"));
  EXPECT_THAT(page, HasSubstr("<title>chunk 1: 1.60 us to 2.00 us, 0.0041 MB in 8 transfers</title>"));
  EXPECT_THAT(page, HasSubstr("DRAM, up to 4 GB/s"));
  EXPECT_THAT(page, HasSubstr("waiting for operands"));
  EXPECT_THAT(page, HasSubstr("</html>"));
  auto const plain = timeline_html(sample_tiles());
  EXPECT_THAT(plain, Not(HasSubstr("GB/s")));
  EXPECT_THAT(plain, Not(HasSubstr("Beside the SMs")));
}

}  // namespace
}  // namespace tessera
