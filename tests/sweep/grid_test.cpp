// SPDX-License-Identifier: Apache-2.0
#include "tessera/sweep/grid.hpp"

#include <gmock/gmock.h>

namespace tessera {
namespace {

using testing::ElementsAre;

std::vector<Parameter> parameters() {
  auto all = machine_parameters();
  all.push_back(word_parameter("raster", {"row", "column", "swizzle"}));
  all.push_back(whole_parameter("tokens", "1", 1, 1e6));
  return all;
}

std::vector<std::string> values(std::string const& text) {
  auto const axis = parse_axis(text, parameters());
  return axis ? axis->values : std::vector<std::string>{to_text(axis.error())};
}

TEST(SweepAxis, ListsAndRanges) {
  EXPECT_THAT(values("overlap.link_gbps=50,75,100"), ElementsAre("50", "75", "100"));
  EXPECT_THAT(values("overlap.link_gbps=50:150:25"), ElementsAre("50", "75", "100", "125", "150"));
  EXPECT_THAT(values("overlap.link_gbps=50:149:25"), ElementsAre("50", "75", "100", "125"));
  EXPECT_THAT(values("matrix_efficiency=0.7:1:0.1"), ElementsAre("0.7", "0.8", "0.9", "1"));
  EXPECT_THAT(values("l2_mib=64:16:-16"), ElementsAre("64", "48", "32", "16"));
  EXPECT_THAT(values("l2_mib=5:5:1"), ElementsAre("5"));
  EXPECT_THAT(values("clock_ghz=1.50,2.0e0"), ElementsAre("1.5", "2"));
  EXPECT_THAT(values("raster=swizzle,row"), ElementsAre("swizzle", "row"));
  EXPECT_THAT(values("has_pdl=true,false"), ElementsAre("true", "false"));
}

TEST(SweepAxis, RefusesWhatMakesNoSense) {
  auto const refused = [](std::string const& text) { return values(text).front(); };
  EXPECT_EQ(refused("link_gbps=50"),
            "error E0920: there is no parameter \"link_gbps\" to sweep\n"
            "   hint: did you mean \"overlap.link_gbps\"?");
  EXPECT_EQ(refused("l2_mb=50"),
            "error E0920: there is no parameter \"l2_mb\" to sweep\n   hint: did you mean \"l2_mib\"?");
  EXPECT_EQ(refused("frobnication=1"),
            "error E0920: there is no parameter \"frobnication\" to sweep\n"
            "   hint: tessera sweep --parameters lists what there is");
  EXPECT_EQ(refused("l2_mib"),
            "error E0921: \"l2_mib\" does not say which parameter takes which values\n"
            "   hint: name=50,75,100 or name=50:150:25");
  EXPECT_EQ(
      refused("l2_mib="),
      "error E0921: l2_mib: the list of values is empty\n   hint: l2_mib=50,75,100 or l2_mib=50:150:25");
  EXPECT_EQ(refused("l2_mib=1,,2"), "error E0921: l2_mib: \"\" is no number");
  EXPECT_EQ(refused("l2_mib=1,nan"), "error E0921: l2_mib: \"nan\" is no number");
  EXPECT_EQ(refused("l2_mib=-1"), "error E0921: l2_mib: \"-1\" is not from 0 to 1000000");
  EXPECT_EQ(refused("sms=1.5"), "error E0921: sms: \"1.5\" is not a whole number");
  EXPECT_EQ(refused("sms=8,8.0"), "error E0921: sms: 8 is listed twice\n   hint: leave one of them out");
  EXPECT_EQ(refused("raster=diagonal"), "error E0921: raster: \"diagonal\" is not row, column or swizzle");
  EXPECT_EQ(refused("sms=1:9"),
            "error E0921: sms: \"1:9\" is no range\n   hint: first:last:step, such as 50:150:25");
  for (auto const* endless : {"sms=1:9:0", "sms=9:1:1", "sms=1:9:-1"})
    EXPECT_NE(refused(endless).find("never ends or holds no value"), std::string::npos) << endless;
  EXPECT_EQ(
      refused("tokens=1:1000000:1"),
      "error E0922: tokens: the range 1:1000000:1 has 1000000 values, and a sweep at most 100000 points\n"
      "   hint: take larger steps");
}

TEST(SweepGrid, TheLastAxisChangesFastest) {
  auto const grid = parse_grid({"sms=80,160", "raster=row,column,swizzle"}, parameters());
  ASSERT_TRUE(grid.has_value()) << to_text(grid.error());
  ASSERT_EQ(grid->size(), 6U);
  using S = SweepSetting;
  EXPECT_THAT(grid->point(0), ElementsAre(S{"sms", "80"}, S{"raster", "row"}));
  EXPECT_THAT(grid->point(2), ElementsAre(S{"sms", "80"}, S{"raster", "swizzle"}));
  EXPECT_THAT(grid->point(3), ElementsAre(S{"sms", "160"}, S{"raster", "row"}));
}

TEST(SweepGrid, RefusesOneParameterTwiceAndTooManyPoints) {
  EXPECT_EQ(to_text(parse_grid({"sms=80", "sms=160"}, parameters()).error()),
            "error E0921: sms is set twice\n   hint: put all of its values in one list");
  EXPECT_EQ(to_text(parse_grid({"tokens=1:100:1", "sms=1:100:1", "l2_mib=1:100:1"}, parameters()).error()),
            "error E0922: the grid has 1000000 points, and a sweep at most 100000\n"
            "   hint: take fewer values, or sweep one parameter after the other");
}

TEST(SweepShard, EveryPointIsInOneShare) {
  std::vector<int> seen(17);
  for (int i = 1; i <= 5; ++i) {
    auto const shard = parse_shard(std::to_string(i) + "/5");
    ASSERT_TRUE(shard.has_value());
    for (std::size_t point = 0; point < seen.size(); ++point) seen[point] += shard->has(point) ? 1 : 0;
  }
  EXPECT_EQ(seen, std::vector<int>(17, 1));
  for (auto const* wrong : {"", "1", "0/4", "5/4", "1/0", "a/b", "1/2/3", "-1/4"})
    EXPECT_FALSE(parse_shard(wrong).has_value()) << wrong;
}

TEST(MachineNumbers, AreReadAndChangedByName) {
  MachineProfile machine;
  EXPECT_FALSE(machine_number(machine, "overlap.link_gbps").has_value()) << "no overlap hardware";
  EXPECT_FALSE(change_machine(machine, {"overlap.link_gbps", "5"}));
  machine.overlap.emplace();
  for (auto const& number : machine_numbers()) {
    auto const value = number.kind == NumberKind::flag ? "true" : number_text(number.most);
    EXPECT_TRUE(change_machine(machine, {number.name, value})) << number.name;
    EXPECT_EQ(machine_value(machine, number.name), value) << number.name;
  }
  EXPECT_EQ(machine.overlap->link_gbps, 1e6);
  EXPECT_TRUE(machine.has_pdl);
  EXPECT_FALSE(change_machine(machine, {"tile_m", "5"}));
  EXPECT_EQ(machine_value(machine, "tile_m"), "");
}

}  // namespace
}  // namespace tessera
