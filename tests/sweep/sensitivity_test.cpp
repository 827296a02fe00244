// SPDX-License-Identifier: Apache-2.0
#include "tessera/sweep/sensitivity.hpp"

#include <gmock/gmock.h>

#include <bit>

#include "tessera/measure/machine_json.hpp"

namespace tessera {
namespace {

Nudge nudge_of(std::string const& name, double by = 0.1) {
  auto const machine = tessera::machine("t3").value();
  auto const valid = [&](SweepSetting const& setting) {
    auto changed = machine;
    change_machine(changed, setting);
    return contradictions(changed).empty();
  };
  for (auto const& nudge : nudges(machine_parameters(), machine, by, valid))
    if (nudge.parameter.name == name) return nudge;
  return {};
}

TEST(Nudges, GoBothWaysByAShare) {
  auto const link = nudge_of("overlap.link_gbps");
  auto const value = *number_of(link.value);
  EXPECT_DOUBLE_EQ(*number_of(link.lower), 0.9 * value);
  EXPECT_DOUBLE_EQ(*number_of(link.higher), 1.1 * value);
}

TEST(Nudges, WholeNumbersGoToTheNextAtLeast) {
  auto const ccdl = nudge_of("overlap.ccdl");
  EXPECT_EQ(*number_of(ccdl.higher), *number_of(ccdl.value) + 1);
  EXPECT_EQ(*number_of(ccdl.lower), *number_of(ccdl.value) - 1);
}

TEST(Nudges, PowersOfTwoAreHalvedAndDoubled) {
  auto const banks = nudge_of("overlap.banks");
  EXPECT_EQ(*number_of(banks.higher), 2 * *number_of(banks.value));
  EXPECT_EQ(*number_of(banks.lower), *number_of(banks.value) / 2);
}

TEST(Nudges, StayInRangeAndLeaveOutZerosFlagsAndWhatIsNotRead) {
  EXPECT_LE(*number_of(nudge_of("matrix_efficiency", 0.5).higher), 1);
  EXPECT_EQ(nudge_of("has_pdl").value, "");
  auto parameters = machine_parameters();
  for (auto& p : parameters) p.read = false;
  auto const all = [](SweepSetting const&) { return true; };
  EXPECT_TRUE(nudges(parameters, machine("t3").value(), 0.1, all).empty());
  MachineProfile none;
  none.sms = 0;
  for (auto const& nudge : nudges(machine_parameters(), none, 0.1, all))
    EXPECT_NE(nudge.parameter.name, "sms");
}

TEST(Elasticity, IsPercentForAPercent) {
  Sensitivity s{{{}, "100", "90", "110"}, 0.9, 1.1, 1.0, {}};
  EXPECT_NEAR(*elasticity(s), 1, 1e-12);
  s.at_lower.reset();
  EXPECT_NEAR(*elasticity(s), 1, 1e-12) << "one side is enough";
  s.at_higher.reset();
  EXPECT_FALSE(elasticity(s).has_value());
  Sensitivity inverse{{{}, "4", "3", "5"}, 1.25, 0.75, 1.0, {}};
  EXPECT_NEAR(*elasticity(inverse), -1, 1e-12);
}

TEST(Elasticity, SortsBySize) {
  std::vector<Sensitivity> list(4);
  list[0].elasticity = 0.1;
  list[1].elasticity = -0.5;
  list[3].elasticity = 0.3;
  sort_by_elasticity(list);
  EXPECT_EQ(list[0].elasticity, -0.5);
  EXPECT_EQ(list[1].elasticity, 0.3);
  EXPECT_EQ(list[2].elasticity, 0.1);
  EXPECT_FALSE(list[3].elasticity.has_value());
}

TEST(Elasticity, SharesInPercent) {
  EXPECT_EQ(parse_percent("10%").value(), 0.1);
  EXPECT_EQ(parse_percent("5").value(), 0.05);
  EXPECT_EQ(parse_percent("0.1%").value(), 0.001);
  for (auto const* wrong : {"", "%", "0", "100%", "ten", "-5%", "0.1"})
    EXPECT_FALSE(parse_percent(wrong).has_value()) << wrong;
}

}  // namespace
}  // namespace tessera
