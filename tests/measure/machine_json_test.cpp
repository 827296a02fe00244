// SPDX-License-Identifier: Apache-2.0
#include "tessera/measure/machine_json.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "tessera/measure/machine_fields.hpp"
#include "tessera/shipped.hpp"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string replaced(std::string text, std::string const& from, std::string const& to) {
  auto const at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string v100() { return print_machine(machine("v100").value()); }

// libFuzzer cuts longer seeds: fuzz/run.
TEST(MachineJson, TheSeedWithAProbeIsAProfileAndShort) {
  std::ostringstream text;
  text << std::ifstream(TESSERA_SOURCE_DIR "/fuzz/corpus/machine_json/with_a_probe.json").rdbuf();
  EXPECT_LE(text.str().size(), 32768U);
  auto const read = parse_machine(text.str(), "with_a_probe.json");
  ASSERT_TRUE(read) << to_text(read.error());
  ASSERT_TRUE(read->probe);
  EXPECT_FALSE(read->probe->figures.empty());
}

TEST(MachineJson, EveryShippedProfileRoundTrips) {
  ASSERT_EQ(shipped_machines().size(), 6U);
  for (auto const& file : shipped_machines()) {
    auto const read = parse_machine(file.text, std::string(file.name));
    ASSERT_TRUE(read.has_value()) << to_text(read.error());
    EXPECT_EQ(read->name, file.name);
    // Those about power, copies in L2 and loads by a copy engine are the H200's alone, which the H100, the
    // same chip, takes over; how much memory there is everybody says but T3's authors.
    auto const fields = machine_fields();
    auto const here = std::count_if(fields.begin(), fields.end(), [&](auto const& field) {
      return !field.optional || read->name == "h200" || read->name == "h100" ||
             (read->name != "t3" && field.name == std::string("dram_gb"));
    });
    auto const overlap = overlap_fields();
    auto const required =
        std::count_if(overlap.begin(), overlap.end(), [](auto const& field) { return !field.optional; });
    EXPECT_EQ(read->sources.size(), static_cast<std::size_t>(here + (read->overlap ? required : 0)))
        << "every value has a source";
    for (auto const& [kernel, timing] : read->kernels) EXPECT_FALSE(timing.source.empty()) << kernel;
    EXPECT_EQ(parse_machine(print_machine(*read), "again").value(), *read);
  }
}

TEST(MachineJson, OccupancyOfKnownKernels) {
  // 64x256x32 in two stages: 40 KiB, 128 threads at 255 registers: two blocks per SM on V100 (Table I).
  EXPECT_EQ(occupancy(machine("v100").value(), {128, 255, 40960}), 2);
  EXPECT_EQ(occupancy(machine("h200").value(), {384, 168, 221184}), 1);
}

TEST(MachineJson, UnknownNameIsAnsweredWithTheNearest) {
  auto const refused = machine("h20");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(to_text(refused.error()),
            "error E0602: there is no machine \"h20\"\n"
            "   machines: a100, h100, h200, p100, t3 and v100\n"
            "   hint: did you mean \"h200\"?");
  EXPECT_THAT(to_text(machine("mi300").error()), HasSubstr("give one of the machines above"));
}

TEST(MachineJson, RefusesOutOfRangeValuesUnitsAndContradictions) {
  auto const codes = [](std::string const& text) {
    std::vector<std::string> result;
    auto const refused = parse_machine(text, "m.json");
    if (!refused)
      for (auto const& d : refused.error()) result.push_back(d.code);
    return result;
  };
  EXPECT_THAT(codes(v100()), ElementsAre());
  EXPECT_THAT(codes("{"), ElementsAre("E0601"));
  EXPECT_THAT(codes(replaced(v100(), "\"value\": 80,", "\"value\": 0,")), ElementsAre("E0604"));
  EXPECT_THAT(codes(replaced(v100(), "\"value\": 80,", "\"value\": 9223372036854775807,")),
              ElementsAre("E0604"));
  EXPECT_THAT(codes(replaced(v100(), "\"value\": 80,", "\"value\": 80.5,")), ElementsAre("E0604"));
  EXPECT_THAT(codes(replaced(v100(), "\"value\": 865", "\"value\": -1")), ElementsAre("E0604"));
  EXPECT_THAT(codes(replaced(v100(), "\"1e9 byte/s\"", "\"GB/s\"")), ElementsAre("E0604"));
  EXPECT_THAT(codes(replaced(v100(), "\"sms\"", "\"sm_count\"")), ElementsAre("E0603", "E0605"));
  EXPECT_THAT(codes(replaced(v100(), "tessera.machine/1", "tessera.machine/9")), ElementsAre("E0607"));
  EXPECT_THAT(codes(replaced(v100(), "\"value\": 2490", "\"value\": 100")), ElementsAre("E0606"));
  auto early = machine("v100").value();
  early.has_pdl = true;
  EXPECT_THAT(codes(print_machine(early)), ElementsAre("E0606"));
  auto h200 = machine("h200").value();
  h200.power_idle_w = h200.power_limit_w;
  EXPECT_THAT(codes(print_machine(h200)), ElementsAre("E0606"));
  auto const printed = print_machine(machine("h200").value());
  EXPECT_THAT(codes(replaced(printed, "gemm_128x96x64_2x1", "gemm_128x128x64_2x1")), ElementsAre("E0604"));
  EXPECT_THAT(codes(replaced(printed, "\"slice_cycles\": 386", "\"slice_cycles\": 0")), ElementsAre("E0604"));
  auto const t3 = print_machine(machine("t3").value());
  EXPECT_THAT(codes(t3), ElementsAre());
  EXPECT_THAT(codes(replaced(t3, "\"banks\": {\n      \"value\": 16", "\"banks\": {\n      \"value\": 15")),
              ElementsAre("E0606"));
  EXPECT_THAT(codes(replaced(t3, "\"row_bytes\": {\n      \"value\": 2048",
                             "\"row_bytes\": {\n      \"value\": 2000")),
              ElementsAre("E0606"));
  EXPECT_THAT(
      codes(replaced(t3, "\"l2_slices\": {\n      \"value\": 64", "\"l2_slices\": {\n      \"value\": 48")),
      ElementsAre("E0606"));
  EXPECT_THAT(codes(replaced(t3, "\"channel_interleave\": {\n      \"value\": 256",
                             "\"channel_interleave\": {\n      \"value\": 64")),
              ElementsAre("E0606"));
  EXPECT_THAT(
      codes(replaced(t3, "\"l2_mib\": {\n      \"value\": 16", "\"l2_mib\": {\n      \"value\": 16385")),
      ElementsAre("E0606"));
  EXPECT_THAT(codes(replaced(t3, "\"link_gbps\"", "\"link_gbit\"")), ElementsAre("E0603", "E0605"));
}

}  // namespace
}  // namespace tessera
