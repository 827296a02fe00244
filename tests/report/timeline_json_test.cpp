// SPDX-License-Identifier: Apache-2.0
#include "tessera/timeline_json.hpp"

#include <gmock/gmock.h>

#include <functional>

#include "report/samples.hpp"

namespace tessera {
namespace {

std::string refusal(std::string const& text) {
  auto const parsed = parse_timeline(text, "run.json");
  return parsed ? "accepted" : to_text(parsed.error());
}

/// The printed sample after a change of its value.
std::string with(std::function<void(Timeline&)> const& change) {
  auto timeline = sample_tiles();
  change(timeline);
  return print_timeline(timeline);
}

std::string replaced(std::string text, std::string const& from, std::string const& to) {
  auto const at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(TimelineJson, RoundTrips) {
  for (auto const& timeline : {sample_tiles(), sample_stream_order(), [] {
                                 auto totals = sample_tiles();
                                 totals.tiles.clear();
                                 totals.busy = 1.0 / 3;
                                 totals.measured = totals.by_launch = true;
                                 totals.stages[1].variant = "algorithm 7";
                                 return totals;
                               }()}) {
    auto const parsed = parse_timeline(print_timeline(timeline), "run.json");
    ASSERT_TRUE(parsed) << to_text(parsed.error());
    EXPECT_EQ(*parsed, timeline);
    EXPECT_EQ(print_timeline(*parsed), print_timeline(timeline));
  }
}

TEST(TimelineJson, RefusesOtherText) {
  EXPECT_THAT(refusal("{"), testing::StartsWith("run.json:1: error E0701: this is not JSON"));
  EXPECT_EQ(refusal("{}"), "run.json:1: error E0702: \"schema\" is missing");
  EXPECT_EQ(refusal(R"({"schema": "tessera.timeline/2"})"),
            "run.json:1: error E0705: schema \"tessera.timeline/2\" is not tessera.timeline/1");
  EXPECT_THAT(refusal("[]"), testing::HasSubstr("E0703"));
}

TEST(TimelineJson, RefusesContradictions) {
  auto const expect_contradiction = [](std::function<void(Timeline&)> const& change,
                                       std::string const& said) {
    auto const text = refusal(with(change));
    EXPECT_THAT(text, testing::HasSubstr("E0706"));
    EXPECT_THAT(text, testing::HasSubstr(said));
  };
  expect_contradiction([](auto& t) { t.tiles[0].stage = 2; }, "stage 2 of 2");
  expect_contradiction([](auto& t) { t.tiles[0].tile = 6; }, "tile 6 of 6 in \"gemm1\"");
  expect_contradiction([](auto& t) { t.tiles[0].split = 1; }, "split 1 of 1");
  expect_contradiction([](auto& t) { t.tiles[0].sm = 4; }, "SM 4 of 4");
  expect_contradiction([](auto& t) { t.tiles[0].gpu = 1; }, "GPU 1 of 1");
  expect_contradiction([](auto& t) { t.tiles[0].slot = 1; }, "slot 1 of 1");
  expect_contradiction([](auto& t) { t.tiles[0].ready = t.tiles[0].posted; }, "times out of order");
  expect_contradiction([](auto& t) { t.end = 2'000'000; }, "stage \"gemm2\" ends after \"end_ps\"");
  expect_contradiction([](auto& t) { t.tiles[0].waiting = 900'000; }, "waits longer");
  expect_contradiction([](auto& t) { t.stages[0].extent = {3, 3}; }, "says 6 tiles, but its extents make 9");
  expect_contradiction([](auto& t) { t.stages[0].first_start = 9'000'000; }, "ends before it starts");
}

TEST(TimelineJson, RefusesRowsThatCannotAllBeTrue) {
  auto const expect = [](std::function<void(Timeline&)> const& change, std::string const& said) {
    EXPECT_THAT(refusal(with(change)),
                testing::AllOf(testing::HasSubstr("error E0706"), testing::HasSubstr(said)));
  };
  expect([](auto& t) { t.tiles.push_back(t.tiles[3]); }, "tile 3 of \"gemm1\" is there twice");
  expect([](auto& t) { t.tiles[1].tile = 0; }, "tile 0 of \"gemm1\" is there twice");
  expect([](auto& t) { t.tiles.erase(t.tiles.begin()); },
         "stage \"gemm1\" has 6 blocks, and \"tiles\" has 5 of them");
  expect([](auto& t) { t.tiles.resize(6); }, "stage \"gemm2\" has 6 blocks, and \"tiles\" has 0 of them");
  expect([](auto& t) { t.tiles[5].sm = 0; },
         "tile 5 of \"gemm1\" starts in slot 0 of SM 0 before tile 4 of \"gemm1\" has left it");
  expect([](auto& t) { t.stages[1].name = "gemm1"; }, "two stages are called \"gemm1\"");
  expect([](auto& t) { t.stages[1].first_start = 1; },
         "stage \"gemm2\" is said to last from 1 to 3000000 ps, and its tiles from 1000000 to 3000000");
  expect([](auto& t) { t.stages[0].last_end -= 1; }, "is said to last from 0 to 1999999 ps");
  expect([](auto& t) { t.by_launch = true; }, "a timeline by launch has the times of launches, and no tiles");

  auto two = sample_tiles();
  two.gpus = 2;
  EXPECT_EQ(refusal(print_timeline(two)), "accepted") << "the second has none";
  two.tiles.push_back(two.tiles[0]);
  two.tiles.back().gpu = 1;
  EXPECT_THAT(refusal(print_timeline(two)), testing::HasSubstr("has 6 blocks, and \"tiles\" has 1 of them"));
}

TEST(TimelineJson, RefusesWhatIsLeftOut) {
  auto const text = print_timeline(sample_tiles());
  EXPECT_THAT(refusal(with([](auto& t) { t.stages[0].name = ""; })),
              testing::HasSubstr("a stage has a name"));
  EXPECT_THAT(refusal(replaced(text, "\"busy\": 1.0,", "")),
              testing::HasSubstr("E0702: \"busy\" is missing"));
  EXPECT_THAT(refusal(replaced(text, "\"waves\": 3.0,", "")),
              testing::HasSubstr("E0702: \"waves\" is missing"));
  EXPECT_THAT(refusal(with([](auto& t) { t.tiles.clear(), t.stages.resize(5000, t.stages[0]); })),
              testing::HasSubstr("E0703: a timeline has at most 4096 stages, not 5000"));
}

TEST(TimelineJson, RefusesWrongTypesAndRanges) {
  auto const text = print_timeline(sample_tiles());
  EXPECT_THAT(refusal(replaced(text, "\"sms\": 4", "\"sms\": 0")), testing::HasSubstr("E0703"));
  EXPECT_THAT(refusal(replaced(text, "\"sms\": 4", "\"sms\": 99999999999")), testing::HasSubstr("E0703"));
  EXPECT_THAT(refusal(replaced(text, "\"end_ps\": 3000000", "\"end_ps\": -1")), testing::HasSubstr("E0703"));
  EXPECT_THAT(refusal(replaced(text, "\"end_ps\": 3000000", "\"end_ps\": 1e300")),
              testing::HasSubstr("E0703"));
  EXPECT_THAT(refusal(replaced(text, "\"busy\"", "\"bussy\"")), testing::HasSubstr("E0704"));
  EXPECT_THAT(refusal(replaced(text, "\"loaded_ps\"", "\"loded_ps\"")),
              testing::HasSubstr("\"tile_columns\" differ"));
  EXPECT_THAT(refusal(replaced(text, "[0, 0, 0, 0, 0, 0, 0,", "[0, 0, 0, 0, 0, 0,")),
              testing::HasSubstr("array of 12 whole numbers"));
}

}  // namespace
}  // namespace tessera
