// SPDX-License-Identifier: Apache-2.0
#include "tessera/report/sweep.hpp"

#include <gmock/gmock.h>

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Two axes, the first in the order 50, 25; the time is 100 / l2 + stages.
SweepTable sample(std::vector<std::string> const& stages = {"2", "3"}) {
  SweepTable table{"5eed", 2 * stages.size(), {"l2_mib", "stages"}, {"us", "mechanism"}, {}};
  for (auto const* l2 : {"50", "25"})
    for (auto const& s : stages)
      table.rows.push_back(
          {table.rows.size(), "in", {l2, s}, "", {number_text(100 / *number_of(l2) + *number_of(s)), "PDL"}});
  return table;
}

StudyTable const* plot(StudyDocument const& document, std::string const& id) {
  for (auto const& table : document.tables)
    if (table.id == id) return &table;
  return nullptr;
}

TEST(SweepDocument, HasALineForEachCombinationOfTheOtherAxes) {
  auto const document = study_document(sample(), "caches");
  auto const* us = plot(document, "plot-us");
  ASSERT_NE(us, nullptr);
  EXPECT_THAT(us->columns, ElementsAre("l2_mib", "stages 2", "stages 3"));
  EXPECT_EQ(us->plot.kind, StudyPlot::Kind::lines);
  ASSERT_EQ(us->rows.size(), 2U);
  EXPECT_EQ(us->rows[0], (std::vector<StudyCell>{25.0, 6.0, 7.0})) << "in the order of the axis";
  EXPECT_EQ(us->rows[1], (std::vector<StudyCell>{50.0, 4.0, 5.0}));
  EXPECT_EQ(plot(document, "plot-mechanism"), nullptr) << "words have no plot";
  EXPECT_THAT(study_html(document), HasSubstr("<polyline"));
}

TEST(SweepDocument, WordsOnTheAxisAreBars) {
  SweepTable table{"5eed", 2, {"raster"}, {"t3"}, {}};
  table.rows = {{0, "a", {"row"}, "", {"1.25"}}, {1, "b", {"column"}, "", {"1.5"}}};
  auto const document = study_document(table, "rasters");
  EXPECT_EQ(plot(document, "plot-t3")->plot.kind, StudyPlot::Kind::bars);
  EXPECT_THAT(study_html(document), Not(HasSubstr("<polyline")));
}

TEST(SweepDocument, ShowsRefusedPointsInTheTableOnly) {
  auto table = sample();
  table.rows[0].refused = "E0606";
  table.rows[0].results = {"", ""};
  auto const document = study_document(table, "caches");
  EXPECT_EQ(document.tables.front().columns.back(), "refused");
  EXPECT_EQ(document.tables.front().rows.size(), 4U);
  EXPECT_EQ(plot(document, "plot-us")->rows.size(), 1U) << "no gaps in a line";
}

TEST(SweepDocument, DrawsNoMoreLinesThanThereAreColours) {
  std::vector<std::string> stages;
  for (int s = 2; s < 14; ++s) stages.push_back(std::to_string(s));
  auto const document = study_document(sample(stages), "caches");
  EXPECT_EQ(plot(document, "plot-us")->columns.size(), 9U);
  EXPECT_THAT(plot(document, "plot-us")->note, HasSubstr("first 8 of 12"));
  EXPECT_EQ(document.tables.front().rows.size(), 24U);
}

TEST(SweepDocument, SaysThatAShareIsOne) {
  auto table = sample();
  table.rows.pop_back();
  EXPECT_THAT(study_document(table, "caches").notes, ElementsAre("3 of 4 points: a share of the sweep."));
}

TEST(SensitivityDocument, IsTextAndCsvAndJson) {
  Nudge const nudge{whole_parameter("sms", "1", 1, 4096), "80", "72", "88"};
  std::vector<Sensitivity> const list{{nudge, 1.0, 3.0, 2.0, 5.0}, {nudge, {}, {}, 2.0, {}}};
  auto const text = study_text(study_document(list, "a sweep", "us"));
  EXPECT_THAT(text, HasSubstr("What us depends on"));
  EXPECT_THAT(text, HasSubstr("-50.00 %"));
  EXPECT_THAT(text, HasSubstr("+50.00 %"));
  EXPECT_EQ(sensitivities_csv(list),
            "name,unit,value,base,lower,at_lower,higher,at_higher,elasticity\n"
            "sms,1,80,2,72,1,88,3,5\n"
            "sms,1,80,2,72,,88,,\n");
  EXPECT_THAT(sensitivities_json(list, "us"), HasSubstr("\"elasticity\": 5"));
}

}  // namespace
}  // namespace tessera
