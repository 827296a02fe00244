// SPDX-License-Identifier: Apache-2.0
// A study's tables as text, JSON, CSV and a page.
#include "tessera/report/study.hpp"

#include <gmock/gmock.h>

#include "tessera/measure/machine_json.hpp"
#include "tessera/simulate/cusync_study.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;

StudyDocument sample() {
  StudyTable table{"figure-1", "Two <rows>", "a note", {"name", "value", "other"}, {}, {}};
  table.rows = {{"first, with comma", 1.25, 3.0}, {"second", 1234.5678, 0.001}};
  table.plot = {StudyPlot::Kind::bars, {0}, {1, 2}, 0, " us"};
  return {"A study", {"a warning"}, {table, {"empty", "Nothing", "", {"a"}, {}, {}}}, "{}"};
}

TEST(StudyReport, TextLinesUpAndLeavesOutWhatIsEmpty) {
  EXPECT_EQ(study_text(sample()),
            "Two <rows>\n"
            "  name                value  other\n"
            "  first, with comma   1.250      3\n"
            "  second             1234.6  0.001\n");
  EXPECT_EQ(study_text(sample(), {"empty"}), "");
}

TEST(StudyReport, APageOfTextHasTitleUnitsAndNotes) {
  EXPECT_EQ(study_page_text(sample()),
            "A study\n"
            "\n"
            "Two <rows>\n"
            "  a note\n"
            "  name                value  other\n"
            "  first, with comma   1.250      3\n"
            "  second             1234.6  0.001\n"
            "\n"
            "a warning\n");
}

TEST(StudyReport, CsvHasOneValuePerRow) {
  EXPECT_EQ(study_csv(sample()),
            "table,row,column,value\n"
            "figure-1,0,name,\"first, with comma\"\nfigure-1,0,value,1.25\nfigure-1,0,other,3\n"
            "figure-1,1,name,second\nfigure-1,1,value,1234.5678\nfigure-1,1,other,0.001\n");
}

TEST(StudyReport, JsonKeepsEveryDigit) {
  auto const json = study_json(sample());
  EXPECT_THAT(json, HasSubstr("\"schema\": \"tessera.study/1\""));
  EXPECT_THAT(json, HasSubstr("1234.5678"));
}

TEST(StudyReport, PageEscapesAndDraws) {
  auto const page = study_html(sample());
  EXPECT_THAT(page, HasSubstr("Two &lt;rows&gt;"));
  EXPECT_THAT(page, HasSubstr("<rect class=\"s1\""));
  EXPECT_THAT(page, testing::Not(HasSubstr("http")));
}

/// Upright names take 12 pixels: 200 of them do not fit beside each other, two do.
TEST(StudyReport, NamesBelowBarsAreAsManyAsFit) {
  auto document = sample();
  EXPECT_THAT(study_html(document), HasSubstr("<span class=\"\" style=\"left:75.00%\">second</span>"));
  auto& rows = document.tables[0].rows;
  rows.resize(200, rows[0]);
  auto const page = study_html(document);
  auto const count = [&](std::string const& what) {
    int times = 0;
    for (auto at = page.find(what); at != std::string::npos; at = page.find(what, at + 1)) ++times;
    return times;
  };
  int const everywhere = count("<span class=\"\" style"), on_desks = count("<span class=\"desk\"");
  EXPECT_LE(12 * (everywhere + on_desks), 620);
  EXPECT_LE(12 * (everywhere + count("<span class=\"phone\"")), 280);
  EXPECT_GE(everywhere, 5);
  EXPECT_EQ(everywhere + on_desks + count("<span class=\"phone\"") + count("<span class=\"none\""), 200);
}

TEST(StudyReport, VerdictsAreToldApartWithoutColour) {
  StudyTable table{"verdicts", "Verdicts", "", {"row", "", "why"}, {}, {}};
  table.rows = {{"a", "reproduced", "x"}, {"b", "by other means", "x"}, {"c", "missed", "x"}, {"d", "", "x"}};
  table.verdict_column = 1;
  table.wide_columns = {2};
  StudyDocument const document{"A study", {}, {table}, "{}"};
  EXPECT_EQ(study_text(document),
            "Verdicts\n"
            "  row\n"
            "  a    ✓ reproduced\n"
            "  b    ≈ by other means\n"
            "  c    ✗ MISSED\n"
            "  d\n");
  auto const page = study_html(document);
  EXPECT_THAT(page, HasSubstr("<span class=\"verdict held\">✓ reproduced</span>"));
  EXPECT_THAT(page, HasSubstr("<span class=\"verdict other\">≈ by other means</span>"));
  EXPECT_THAT(page, HasSubstr("<span class=\"verdict missed\">✗ MISSED</span>"));
  EXPECT_THAT(page, HasSubstr("data-label=\"why\"")) << "wide columns are on the page";
  EXPECT_THAT(study_json(document), HasSubstr("\"missed\"")) << "data has no marks";
}

TEST(CusyncStudy, RowsAreThoseOfTheCalibration) {
  auto const study = study_cusync(machine("v100").value());
  ASSERT_TRUE(study.has_value()) << to_text(study.error());
  ASSERT_EQ(study->rows.size(), 6U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(study->rows[i].stream, study->rows[i].paper_stream, 0.1 * study->rows[i].paper_stream);
    EXPECT_NEAR(study->rows[i].best(), study->rows[i].paper_best, 0.1 * study->rows[i].paper_best);
  }
  EXPECT_DOUBLE_EQ(study->rows[2].waves1, 1.2);
  EXPECT_DOUBLE_EQ(study->rows[5].waves2, 4.8);
  for (auto const& row : study->rows) {
    EXPECT_LT(row.least_stream, row.stream) << row.tokens;
    EXPECT_LT(row.least, row.best()) << row.tokens;
    bool const is_target = row.tokens <= 256;
    EXPECT_EQ(row.least_stream < row.paper_stream, is_target) << row.tokens;
    EXPECT_EQ(row.least < row.paper_best, is_target) << row.tokens;
  }
  // 96 blocks of 256 x 256 x 6144 on 80 SMs: two on one, twice. 192 in all: three on one.
  constexpr double k_block_us = 2e-3 * 256 * 256 * 6144 / (1.597 * 1024);
  EXPECT_NEAR(study->rows[3].least_stream, 4 * k_block_us, 1e-6);
  EXPECT_NEAR(study->rows[3].least, 3 * k_block_us, 1e-6);
  ASSERT_EQ(study->steps.size(), 4U);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_LT(study->steps[i].simulated, study->steps[i - 1].simulated);
  EXPECT_THAT(study_text(study_document(*study)), HasSubstr("Table IV"));
}

TEST(CusyncStudy, ConvolutionsAreThoseOfTableVb) {
  auto const study = study_cusync(machine("v100").value());
  ASSERT_TRUE(study.has_value()) << to_text(study.error());
  ASSERT_EQ(study->convolutions.size(), 5U);
  std::array<std::int64_t, 3> const grids[] = {{49, 1, 2}, {13, 2, 2}, {4, 4, 4}, {1, 8, 8}, {4, 8, 4}};
  for (std::size_t i = 0; i < 5; ++i) {
    auto const& row = study->convolutions[i];
    EXPECT_EQ(row.grid, grids[i]) << i;
    EXPECT_LT(row.waves, 1) << i;
    EXPECT_LT(row.steps[1], row.steps[0]) << i;
    EXPECT_LT(row.steps[2], row.steps[1]) << i;
    // T gains nothing where four images share the tiles of 7x7x512; it costs next to nothing there.
    EXPECT_LT(row.steps[3], i == 4 ? 1.01 * row.steps[2] : row.steps[2]) << i;
    EXPECT_LT(row.steps[3], row.stream) << i;
    // As in the paper, tiles without any optimization are slower than stream order.
    EXPECT_GT(row.steps[0], row.stream) << i;
  }
  auto const text = study_text(study_document(*study));
  EXPECT_THAT(text, HasSubstr("Table V(b)"));
  EXPECT_THAT(text, HasSubstr("13x2x2"));
}

}  // namespace
}  // namespace tessera
