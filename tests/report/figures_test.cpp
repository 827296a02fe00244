// SPDX-License-Identifier: Apache-2.0
#include "tessera/report/figures.hpp"

#include <gmock/gmock.h>

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Figures, ASectionNamesWhatMadeItsNumbers) {
  auto const found =
      figures_without_source("# Page\n\nFast.\n\n## Hops\n\nA hop takes 408 ns, 0.5 µs at most.\n", "a.md");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].code, "E0938");
  EXPECT_EQ(found[0].where.line, 7);
  EXPECT_THAT(found[0].message, HasSubstr("\"Hops\""));
  EXPECT_THAT(found[0].message, HasSubstr("2, the first 408 ns"));
}

TEST(Figures, OfEveryUnitAreSeen) {
  for (auto const* figure : {"35 %", "2.5%", "1.41×", "1.4x", "12 MB/s", "4.8 TB/s", "3 GiB/s", "1200 MLUPS",
                             "4.1 GLUPS", "12 GFLOPS", "800 TFLOP/s", "20 cycles", "17 microseconds",
                             "40 percent", "3 times faster", "1.2 times as fast"})
    EXPECT_THAT(figures_without_source(std::string("## A\nIt is ") + figure + ".\n", "a.md"), SizeIs(1))
        << figure;
  for (auto const* none : {"64×128 tiles", "2 × 4 tiles", "64x128 tiles", "a deadline of 2 s", "8 xs"})
    EXPECT_THAT(figures_without_source(std::string("## A\nIt is ") + none + ".\n", "a.md"), IsEmpty())
        << none;
}

TEST(Figures, APaperIsASourceByItsPlaceAndForNoSectionBelow) {
  for (auto const* place : {"the paper's table 4", "Section 5.2 of the paper", "arXiv:2405.13049"})
    EXPECT_THAT(figures_without_source(std::string("## A\n408 ns (") + place + ")\n", "a.md"), IsEmpty())
        << place;
  EXPECT_THAT(figures_without_source("## As the paper says\n4 us\n", "a.md"), SizeIs(1));
  EXPECT_THAT(figures_without_source("## A\n4 us, as in the paper\n", "a.md"), SizeIs(1));
  EXPECT_THAT(figures_without_source("# The paper's figure 6\n4 us\n", "a.md"), SizeIs(1));
  EXPECT_THAT(figures_without_source("# A\nFrom the paper's table 4.\n## B\n4 us\n", "a.md"), SizeIs(1));
}

TEST(Figures, RecordCommandOrTheWordsNoRecordWillDo) {
  for (auto const* source : {"results/h200/probe.json", "`probe.json`", "`tessera simulate --study t3`",
                             "`bench/predict/run`", "no record"})
    EXPECT_THAT(figures_without_source(std::string("## A\n408 ns (") + source + ")\n", "a.md"), IsEmpty())
        << source;
}

TEST(Figures, ASourceCountsForTheSectionsBelowItAndForNoOther) {
  std::string const page =
      "# Page\n## One\nresults/h200/probe.json\n### Below\n4 us\n## Two\n5 us\n### Below two\n6 us\n";
  auto const found = figures_without_source(page, "a.md");
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].where.line, 7);
  EXPECT_EQ(found[1].where.line, 9);
}

TEST(Figures, WhatStandsUnderThePagesTitleIsNoSourceOfItsSections) {
  for (auto const* lead : {"# Page\nFigures are of results/h200/probe.json.\n",
                           "results/h200/probe.json\n# Page\n", "# `tessera simulate`\n"}) {
    auto const found = figures_without_source(std::string(lead) + "## One\n4 us\n", "a.md");
    ASSERT_THAT(found, SizeIs(1)) << lead;
    EXPECT_EQ(found[0].severity, Severity::warning);
  }
  EXPECT_THAT(figures_without_source("# Page\n4 us (results/h200/probe.json)\n## One\nNothing.\n", "a.md"),
              IsEmpty());
  EXPECT_THAT(figures_without_source("# Page\nresults/h200/probe.json\n\n4 us\n", "a.md"), IsEmpty());
}

TEST(Figures, CodeAndPlainNumbersAreNoFigures) {
  EXPECT_THAT(figures_without_source("## A\n16 rows, `wait 4 us`, 64x128\n```\n27 us\n# 3 us\n```\n", "a.md"),
              IsEmpty());
}

TEST(Figures, ARecordSaysWhenWhereAndWithWhatItWasMade) {
  std::string const whole = R"({"commit": "81c49cf", "date": "2026-11-22", "machine": "NVIDIA H200",
    "driver": "580.1", "clocks": "1980 MHz", "command": "calls"})";
  EXPECT_THAT(gaps_of_record(whole, "r.json"), IsEmpty());
  auto const without = [&](std::string const& key) {
    auto text = whole;
    return gaps_of_record(text.replace(text.find(key), key.size(), "other"), "r.json");
  };
  for (auto const* key : {"commit", "date", "machine", "driver", "clocks", "command"}) {
    auto const found = without(key);
    ASSERT_THAT(found, SizeIs(1)) << key;
    EXPECT_EQ(found[0].code, "E0939");
    EXPECT_THAT(found[0].message, HasSubstr(key));
  }
  for (auto const* nothing : {"{}", "{ }", "\"\"", "null"}) {
    auto text = whole;
    text.replace(text.find("\"1980 MHz\""), 10, nothing);
    EXPECT_THAT(gaps_of_record(text, "r.json"), SizeIs(1)) << nothing;
  }
  EXPECT_THAT(gaps_of_record(R"({"command": "bench/predict/run results/h200/mlp.json"})", "r.json"),
              IsEmpty())
      << "computed from another record";
}

}  // namespace
}  // namespace tessera
