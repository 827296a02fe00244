// SPDX-License-Identifier: Apache-2.0
// Tables of sweeps as files, put together from shares, and continued.
#include "tessera/sweep/table.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>

#include "tessera/sweep/sweep_json.hpp"

namespace tessera {
namespace {

constexpr char const* k_sweep = "00000000000005ee";
constexpr char const* k_aa = "00000000000000aa";
constexpr char const* k_bb = "00000000000000bb";
constexpr char const* k_cc = "00000000000000cc";

SweepTable sample(std::vector<std::size_t> const& points = {0, 1, 2}) {
  SweepTable table{k_sweep, 3, {"l2_mib", "raster"}, {"us", "plan"}, {}};
  std::vector<SweepRow> const rows{{0, k_aa, {"25", "row"}, "", {"12.125", "PDL, \"RowSync\""}},
                                   {1, k_bb, {"50", "true"}, "E0606", {"", ""}},
                                   {2, k_cc, {"0.1", "row"}, "", {"1e-09", "one\nline"}}};
  for (auto const point : points) table.rows.push_back(rows[point]);
  return table;
}

std::string refusal(Expected<SweepTable> const& table) { return table ? "taken" : to_text(table.error()); }

TEST(SweepTable, IsTheSameReadAgain) {
  EXPECT_EQ(print_sweep_csv(sample()),
            "sweep,points,point,inputs,l2_mib,raster,refused,us,plan\n"
            "00000000000005ee,3,1,00000000000000aa,25,row,,12.125,\"PDL, \"\"RowSync\"\"\"\n"
            "00000000000005ee,3,2,00000000000000bb,50,true,E0606,,\n"
            "00000000000005ee,3,3,00000000000000cc,0.1,row,,1e-09,\"one\nline\"\n");
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
  EXPECT_NE(refusal(parse_sweep_csv(text + "00000000000005ee,3,1\n", "x.csv"))
                .find("this line has 3 cells, the first 9"),
            std::string::npos);
  EXPECT_NE(refusal(parse_sweep_csv(text + "00000000000005ee,3,4,aa,25,row,,1,b\n", "x.csv"))
                .find("\"4\" is no point of"),
            std::string::npos);
  EXPECT_NE(refusal(parse_sweep_csv(text + "0dd,3,1,00000000000000aa,25,row,,1,b\n", "x.csv"))
                .find("of different sweeps"),
            std::string::npos);
  EXPECT_NE(
      refusal(parse_sweep_csv(
                  text.substr(0, text.find('\n') + 1) + "00000000000005ee,100001,4,aa,25,row,,1,b\n", "x"))
          .find("\"4\" is no point of \"100001\""),
      std::string::npos);
  EXPECT_NE(refusal(parse_sweep_json("{\"schema\": \"tessera.plan/2\"}", "x.json")).find("E0923"),
            std::string::npos);
  EXPECT_NE(refusal(parse_sweep_json("[1", "x.json")).find("E0923"), std::string::npos);
}

/// A table changed in one place, as both formats.
void expect_refused(std::function<void(SweepTable&)> const& change, std::string const& says, int line_of_csv,
                    SweepRules const& rules = {}) {
  auto table = sample();
  change(table);
  auto const csv = refusal(parse_sweep_csv(print_sweep_csv(table), "x.csv", rules));
  auto const json = refusal(parse_sweep_json(print_sweep_json(table), "x.json", rules));
  auto const place = "x.csv:" + std::to_string(line_of_csv) + ": error E0923: this is no table of a sweep: ";
  EXPECT_EQ(csv.substr(0, csv.find('\n')), place + says);
  EXPECT_NE(json.find(": error E0923: this is no table of a sweep: " + says), std::string::npos) << json;
  EXPECT_EQ(json.rfind("x.json:", 0), 0U) << "with the line";
}

TEST(SweepTable, RefusesRowsThatCannotBe) {
  expect_refused([](auto& t) { t.rows[1].point = 0; }, "point 1 is there twice", 3);
  expect_refused([](auto& t) { t.rows[1].inputs = k_aa; }, "point 2 has the inputs of another", 3);
  expect_refused([](auto& t) { t.rows[0].inputs = "foo"; },
                 "\"foo\" is no fingerprint of 16 hexadecimal digits", 2);
  expect_refused([](auto& t) { t.rows[1].refused = "foo"; }, "\"foo\" is no code of a refusal", 3);
  expect_refused([](auto& t) { t.rows[0].refused = "E0606"; }, "point 1 was refused, and has results", 2);
  EXPECT_NE(
      refusal(parse_sweep_csv("sweep,points,point,inputs,x,refused,us\nfoo,1,1,00000000000000aa,1,,2\n", "x"))
          .find("x:2: error E0923: this is no table of a sweep: \"foo\" is no fingerprint"),
      std::string::npos);
}

TEST(SweepTable, RefusesCellsThatTheRulesDoNotAllow) {
  SweepRules const rules{
      {whole_parameter("l2_mib", "MiB", 1, 50), word_parameter("raster", {"row", "true"})},
      [](auto const& column, auto const& cell) { return column == "plan" || number_of(cell); }};
  expect_refused([](auto& t) { t.rows[0].values[0] = "60"; }, "l2_mib cannot be \"60\"", 2, rules);
  expect_refused([](auto& t) { t.rows[0].values[0] = ""; }, "l2_mib cannot be \"\"", 2, rules);
  expect_refused([](auto& t) { t.rows[0].values[1] = "foo"; }, "raster cannot be \"foo\"", 2, rules);
  expect_refused([](auto& t) { t.axes[1] = "foo"; }, "there is no parameter \"foo\"", 2, rules);
  for (auto const* cell : {"foo", "nan", "1e999", "", "true"})
    expect_refused([&](auto& t) { t.rows[0].results[0] = cell; }, fmt::format("us cannot be \"{}\"", cell), 2,
                   rules);
  auto fine = sample({0, 1});
  EXPECT_EQ(parse_sweep_csv(print_sweep_csv(fine), "x.csv", rules).value(), fine);
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
  wanted.sweep = "00000000000006ee";
  wanted.points = 7;
  auto const kept = rows_to_keep(sample({2, 0}), "x.csv", wanted);
  ASSERT_TRUE(kept.has_value());
  ASSERT_EQ(kept->size(), 2U);
  EXPECT_EQ(kept->front().point, 6U);
  EXPECT_EQ(kept->front().results.front(), "1e-09");
}

TEST(SweepResume, RefusesAFileThatSaysItIsOfAnotherSweep) {
  auto const no = [](std::function<void(SweepTable&)> const& change) {
    auto file = sample();
    change(file);
    auto const kept = rows_to_keep(file, "x.csv", sample());
    return kept ? "taken" : kept.error().front().message;
  };
  EXPECT_EQ(no([](auto&) {}), "taken");
  auto const numbers = "its points have other numbers than this sweep, whose name it has";
  EXPECT_EQ(no([](auto& t) { t.points = 4; }), numbers);
  EXPECT_EQ(no([](auto& t) { std::swap(t.rows[0].point, t.rows[1].point); }), numbers);
  EXPECT_EQ(no([](auto& t) { t.sweep = "00000000000006ee"; }),
            "all of its points are this sweep's, and it has another's name");
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
