// SPDX-License-Identifier: Apache-2.0
// Tables of sweeps as files, put together from shares, and continued.
#include "tessera/sweep/table.hpp"

#include <gmock/gmock.h>

#include "tessera/sweep/sweep_json.hpp"

namespace tessera {
namespace {

SweepTable sample(std::vector<std::size_t> const& points = {0, 1, 2}) {
  SweepTable table{"5eed", 3, {"l2_mib", "raster"}, {"us", "plan"}, {}};
  std::vector<SweepRow> const rows{{0, "aa", {"25", "row"}, "", {"12.125", "PDL, \"RowSync\""}},
                                   {1, "bb", {"50", "true"}, "E0606", {"", ""}},
                                   {2, "cc", {"0.1", "row"}, "", {"1e-09", "one\nline"}}};
  for (auto const point : points) table.rows.push_back(rows[point]);
  return table;
}

std::string refusal(Expected<SweepTable> const& table) { return table ? "taken" : to_text(table.error()); }

TEST(SweepTable, IsTheSameReadAgain) {
  EXPECT_EQ(print_sweep_csv(sample()),
            "sweep,points,point,inputs,l2_mib,raster,refused,us,plan\n"
            "5eed,3,1,aa,25,row,,12.125,\"PDL, \"\"RowSync\"\"\"\n"
            "5eed,3,2,bb,50,true,E0606,,\n"
            "5eed,3,3,cc,0.1,row,,1e-09,\"one\nline\"\n");
  EXPECT_EQ(parse_sweep_csv(print_sweep_csv(sample()), "x.csv").value(), sample());
  EXPECT_EQ(parse_sweep_json(print_sweep_json(sample()), "x.json").value(), sample());
}

TEST(SweepTable, RefusesFilesThatAreNone) {
  EXPECT_EQ(refusal(parse_sweep_csv("", "x.csv")),
            "x.csv: error E0923: this is no table of a sweep: it is empty\n"
            "   hint: remove it, or name another file");
  EXPECT_NE(refusal(parse_sweep_csv("a,b\n1,2\n", "x.csv")).find("x.csv:1: error E0923"), std::string::npos);
  auto const text = print_sweep_csv(sample());
  EXPECT_NE(refusal(parse_sweep_csv(text.substr(0, text.size() - 7), "x.csv")).find("a quote is not closed"),
            std::string::npos);
  EXPECT_NE(refusal(parse_sweep_csv(text + "5eed,3,1\n", "x.csv")).find("this line has 3 cells, the first 9"),
            std::string::npos);
  EXPECT_NE(
      refusal(parse_sweep_csv(text + "5eed,3,4,aa,25,row,,1,b\n", "x.csv")).find("\"4\" is no point of"),
      std::string::npos);
  EXPECT_NE(refusal(parse_sweep_csv(text + "0dd,3,1,aa,25,row,,1,b\n", "x.csv")).find("of different sweeps"),
            std::string::npos);
  EXPECT_NE(
      refusal(parse_sweep_csv(text.substr(0, text.find('\n') + 1) + "5eed,100001,4,aa,25,row,,1,b\n", "x"))
          .find("\"4\" is no point of \"100001\""),
      std::string::npos);
  EXPECT_NE(refusal(parse_sweep_json("{\"schema\": \"tessera.plan/2\"}", "x.json")).find("E0923"),
            std::string::npos);
  EXPECT_NE(refusal(parse_sweep_json("[1", "x.json")).find("E0923"), std::string::npos);
}

TEST(SweepMerge, PutsSharesTogetherInOrder) {
  EXPECT_EQ(merge({{"b.csv", sample({1})}, {"a.csv", sample({0, 2})}}).value(), sample());
  auto empty = sample({});
  empty.points = 0;
  empty.sweep = "";
  EXPECT_EQ(merge({{"none.csv", empty}, {"a.csv", sample()}}).value(), sample());
}

TEST(SweepMerge, RefusesOtherSweepsAndMissingAndDoublePoints) {
  EXPECT_EQ(refusal(merge({{"a.csv", sample({1})}})),
            "error E0924: points 1 and 3 of 3 are in none of the files\n"
            "   hint: run their shares, or continue those that were interrupted, and merge again");
  EXPECT_EQ(refusal(merge({{"a.csv", sample()}, {"b.csv", sample({1})}})),
            "error E0924: point 2 of b.csv is also in a.csv\n   hint: name every share once");
  EXPECT_EQ(refusal(merge({{"a.csv", sample({0, 1, 2, 2})}})),
            "error E0924: point 3 of a.csv is also in another line of it\n   hint: name every share once");
  for (int way = 0; way < 4; ++way) {
    auto other = sample({1});
    if (way == 0) other.sweep = "0dd";
    if (way == 1) other.points = 4;
    if (way == 2) other.axes = {"l2_mib"};
    if (way == 3) other.results = {"us"};
    EXPECT_EQ(refusal(merge({{"a.csv", sample({0, 2})}, {"b.csv", other}})).substr(0, 62),
              "error E0924: a.csv and b.csv are of different sweeps\n   hint: ")
        << way;
  }
}

TEST(SweepResume, KeepsRowsWithTheSameInputsAtTheirNewPlaces) {
  auto wanted = sample();
  for (auto& row : wanted.rows) row.point += 4, row.results.clear();
  auto const kept = rows_to_keep(sample({2, 0}), "x.csv", wanted);
  ASSERT_TRUE(kept.has_value());
  ASSERT_EQ(kept->size(), 2U);
  EXPECT_EQ(kept->front().point, 6U);
  EXPECT_EQ(kept->front().results.front(), "1e-09");
}

TEST(SweepResume, RefusesToLoseRows) {
  auto file = sample();
  file.rows[1].inputs = "another machine";
  auto const refused = rows_to_keep(file, "x.csv", sample());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(to_text(refused.error()),
            "x.csv: error E0923: 1 of its 3 rows is not of this sweep\n"
            "   hint: name another file; --fresh replaces the file and computes all points again");
  auto columns = sample();
  columns.results = {"us", "mechanism"};
  EXPECT_FALSE(rows_to_keep(columns, "x.csv", sample()).has_value());
}

}  // namespace
}  // namespace tessera
