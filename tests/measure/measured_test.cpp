// SPDX-License-Identifier: Apache-2.0
#include "tessera/measure/measured.hpp"

#include <gmock/gmock.h>

#include "probe_samples.hpp"
#include "tessera/measure/compare_probes.hpp"
#include "tessera/measure/machine_json.hpp"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Measured, FiguresAreFoundByIdAndConditions) {
  auto const probe = made_up_probe();
  EXPECT_EQ(find_figure(probe, "grid.barrier.own", {{"blocks_per_sm", 2}})->median, 800.25);
  EXPECT_EQ(find_figure(probe, "grid.barrier.own")->median, 700);
  EXPECT_EQ(find_figure(probe, "grid.barrier.own", {{"blocks_per_sm", 3}}), nullptr);
  EXPECT_EQ(find_figure(probe, "grid.barrier.own", {{"clusters", 1}}), nullptr);
  EXPECT_EQ(find_figure(probe, "grid.barrier"), nullptr);
}

TEST(Measured, OnlyWhatWasMeasuredChanges) {
  auto base = machine("h200").value();
  base.probe.reset();
  auto probe = made_up_probe();
  probe.identity.sms = 132;
  // One block is not what the planner prices: the figure of a block on every SM is.
  probe.figures = {made_up("kernel.gap.stream", 1000, {{"blocks", 1}}),
                   made_up("kernel.gap.stream", 1700, {{"blocks", 132}})};
  auto const measured = with_measured(base, probe);
  EXPECT_EQ(measured.stream_gap_ns, 1700);
  EXPECT_EQ(measured.sources.at("stream_gap_ns"),
            "probe: kernel.gap.stream (blocks 132), stamps, 21 samples from 1615 to 1785, 2026-01-01");
  EXPECT_EQ(measured.probe, probe);
  auto rest = measured;
  rest.probe.reset();
  rest.stream_gap_ns = base.stream_gap_ns;
  rest.sources = base.sources;
  EXPECT_EQ(rest, base);
  EXPECT_EQ(measured.provisional, base.provisional);
  EXPECT_THAT(not_measured(probe), testing::Contains("post_ns: pair.post"));
}

TEST(Measured, AWholeProbeMakesAProfileThatIsNotProvisionalAndCanBeReadAgain) {
  auto probe = made_up_probe();
  for (auto const& missing : not_measured(probe)) {
    auto const id = missing.substr(missing.find(": ") + 2);
    probe.figures.push_back(made_up(id, 500, {{"blocks", probe.identity.sms}, {"trigger_ns", 0}}));
  }
  EXPECT_THAT(not_measured(probe), IsEmpty());
  auto base = machine("h200").value();
  base.provisional = true;
  auto const measured = with_measured(base, probe);
  EXPECT_FALSE(measured.provisional);
  EXPECT_EQ(measured.sms, probe.identity.sms);
  EXPECT_EQ(measured.block_start_ns, base.block_start_ns);
  auto const again = parse_machine(print_machine(measured), "m.json");
  ASSERT_TRUE(again.has_value()) << to_text(again.error());
  EXPECT_EQ(*again, measured);
}

TEST(JoinProbes, FiguresOfThePartReplaceTheirLikeAndNothingElse) {
  auto whole = made_up_probe();
  whole.also.clear();
  whole.verdicts.push_back({"peer.present", "look", "did not hold", "one GPU"});
  Probe part;
  part.identity.gpus = 4;
  part.identity.date = "later";
  part.figures = {made_up("grid.barrier.own", 1, {{"blocks_per_sm", 2}, {"threads", 128}}),
                  made_up("grid.barrier.own", 3, {{"blocks_per_sm", 4}, {"threads", 128}}),
                  made_up("peer.hop", 2)};
  part.verdicts = {{"peer.present", "look", "held", "four GPUs"}};
  auto const both = joined(whole, part);
  ASSERT_EQ(both.figures.size(), 5U);
  EXPECT_EQ(both.figures[0].median, 700) << "of other conditions";
  EXPECT_EQ(both.figures[1].median, 1);
  EXPECT_EQ(both.figures[2].median, 3) << "of the same curve";
  EXPECT_EQ(both.figures[3].id, "pair.hop.store");
  EXPECT_EQ(both.figures[4].id, "peer.hop");
  ASSERT_EQ(both.verdicts.size(), 2U);
  EXPECT_EQ(both.verdicts[1].answer, "held");
  EXPECT_EQ(both.tau, whole.tau);
  EXPECT_EQ(both.identity.gpus, 4);
  EXPECT_EQ(both.identity.date, whole.identity.date);
  ASSERT_EQ(both.also.size(), 1U);
  EXPECT_EQ(both.also[0].date, "later");

  // A figure that repeats its conditions is replaced in order.
  whole.figures = {made_up("a.b", 1), made_up("a.b", 2)};
  part.figures = {made_up("a.b", 3)};
  EXPECT_EQ(joined(whole, part).figures[0].median, 3);
  EXPECT_EQ(joined(whole, part).figures[1].median, 2);
  part.figures.push_back(made_up("a.b", 4));
  ASSERT_EQ(joined(whole, part).figures.size(), 2U);
  EXPECT_EQ(joined(whole, part).figures[1].median, 4);
}

TEST(CompareProbes, SaysWhatRepeats) {
  auto const before = made_up_probe();
  auto after = before;
  EXPECT_THAT(compare(before, after),
              testing::Each(testing::Field(&FigureChange::agreement, Agreement::agrees)));
  after.figures[0].median *= 1.04;
  after.figures[1].median *= 1.08;  // p05 to p95 is 10 % of the median
  after.figures[2].id = "pair.hop.add";
  auto const changes = compare(before, after);
  ASSERT_EQ(changes.size(), 4U);
  EXPECT_NEAR(changes[0].change, 0.04, 1e-12);
  EXPECT_EQ(changes[0].agreement, Agreement::agrees);
  EXPECT_EQ(changes[1].agreement, Agreement::within_noise);
  EXPECT_EQ(changes[2].agreement, Agreement::only_before);
  EXPECT_EQ(changes[3].agreement, Agreement::only_after);
  EXPECT_EQ(changes[3].id, "pair.hop.add");
  after.figures[1].median = 1000;
  EXPECT_EQ(compare(before, after)[1].agreement, Agreement::differs);
  EXPECT_EQ(compare(before, after, 0.5)[1].agreement, Agreement::agrees);
}

}  // namespace
}  // namespace tessera
