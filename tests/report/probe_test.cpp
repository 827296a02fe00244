// SPDX-License-Identifier: Apache-2.0
#include "tessera/report/probe.hpp"

#include <gmock/gmock.h>

#include "golden.hpp"
#include "measure/probe_samples.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Two machines: one measured, one with a few figures "from a paper".
std::vector<NamedProbe> two() {
  auto mine = made_up_probe();
  for (double threads : {32, 256, 1024})
    for (double per_sm : {1, 2})
      mine.figures.push_back(
          made_up("grid.barrier.cooperative", 900 + threads / 10 + 100 * per_sm,
                  {{"threads", threads}, {"blocks_per_sm", per_sm}, {"blocks", 7 * per_sm}}));
  for (double size : {1, 8, 32})
    mine.figures.push_back(made_up("warp.sync.tile", size, {{"threads", size}}, "cycle"));
  mine.figures.push_back(made_up("memory.dram.read", 4321.5, {{"bytes", 1 << 30}}, "1e9 byte/s"));
  mine.figures.push_back(made_up("new.kind", 1));
  Probe paper;
  paper.identity.gpu = "Other <GPU>";
  paper.identity.sms = 5;
  paper.figures = {made_up("warp.sync.tile", 14, {{"threads", 32}}, "cycle"),
                   made_up("grid.barrier.cooperative", 2500, {{"blocks_per_sm", 2}, {"threads", 32}}),
                   made_up("kernel.launch", 1081)};
  paper.verdicts = {{"pitfall.grid.subset", "half of the blocks", "hung", ""},
                    {"pitfall.warp.subset", "half of a warp | or less", "completed", ""}};
  return {{"mine", mine}, {"paper", paper}};
}

TEST(ProbeReport, Text) { expect_golden(probe_text(two().front().probe), "tests/report/golden/probe.txt"); }

TEST(ProbeReport, Markdown) { expect_golden(probe_markdown(two()), "tests/report/golden/probe.md"); }

TEST(ProbeReport, Html) { expect_golden(probe_html(two()), "tests/report/golden/probe.html"); }

TEST(ProbeReport, PutsTheSameFigureInOneRowAndEscapes) {
  auto const text = probe_markdown(two());
  EXPECT_THAT(text, HasSubstr("| 32 | 32 ± 0.32 | 14 ± 0.14 |"));
  EXPECT_THAT(text, HasSubstr("half of a warp \\| or less"));
  auto const page = probe_html(two());
  EXPECT_THAT(page, HasSubstr("Other &lt;GPU&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("Other <GPU>")));
  // A page of its own: nothing is fetched.
  EXPECT_THAT(page, Not(HasSubstr("http")));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
}

TEST(ProbeReport, AnEmptyProbeIsAReportToo) {
  EXPECT_THAT(probe_html({{"none", {}}}), HasSubstr("</html>"));
  EXPECT_THAT(probe_markdown({{"none", {}}}), HasSubstr("none"));
}

TEST(ProbeReport, Comparison) {
  auto const before = made_up_probe();
  auto after = before;
  after.figures[1].median = 1000;
  after.figures.push_back(made_up("pair.hop.add", 600, {{"pollers", 1}}));
  EXPECT_EQ(
      comparison_text(compare(before, after), 0.05),
      "2 repeat within 5.0 %, 0 within their own spread, 1 differ, 0 only before, 1 only after; largest "
      "change 25.0 %\n"
      "figure            before  after  unit   change  spread  at\n"
      "grid.barrier.own   800.2   1000  ns    +25.0 %  10.0 %  blocks per sm 2, threads 128\n");
  auto const all = comparison_text(compare(before, after), 0.05, true);
  EXPECT_THAT(all, HasSubstr("pair.hop.store"));
  EXPECT_THAT(all, HasSubstr("pair.hop.add                600  ns             10.0 %  pollers 1\n"));
}

}  // namespace
}  // namespace tessera
