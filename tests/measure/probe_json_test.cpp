// SPDX-License-Identifier: Apache-2.0
#include "tessera/measure/probe_json.hpp"

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <regex>

#include "probe_samples.hpp"
#include "tessera/measure/machine_json.hpp"

namespace tessera {
namespace {

using testing::ElementsAre;

std::string replaced(std::string text, std::string const& from, std::string const& to) {
  auto const at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string refusal(std::string const& text) {
  auto const read = parse_probe(text, "p.json");
  return read ? "" : to_text(read.error());
}

TEST(ProbeJson, RoundTripsAlone) {
  auto const text = print_probe(made_up_probe());
  auto const read = parse_probe(text, "p.json");
  ASSERT_TRUE(read.has_value()) << to_text(read.error());
  EXPECT_EQ(*read, made_up_probe());
  EXPECT_EQ(print_probe(*read), text);
  Probe nothing;
  nothing.identity.gpu = "x";
  nothing.identity.sms = 1;
  EXPECT_EQ(parse_probe(print_probe(nothing), "p.json").value(), nothing);
}

TEST(ProbeJson, RoundTripsInAMachineProfile) {
  auto machine = tessera::machine("h200").value();
  machine.probe = made_up_probe();
  auto const text = print_machine(machine);
  EXPECT_EQ(parse_machine(text, "m.json").value(), machine);
  EXPECT_EQ(parse_probe(text, "m.json").value(), made_up_probe());
}

TEST(ProbeJson, AProfileWithoutAProbeIsRefused) {
  EXPECT_EQ(refusal(print_machine(tessera::machine("t3").value())),
            "p.json:1: error E0608: the machine profile \"t3\" has no probe\n"
            "   hint: measure one on that machine: tessera probe -o FILE");
}

TEST(ProbeJson, MistakesAreShownAtTheirLines) {
  auto const text = print_probe(made_up_probe());
  EXPECT_EQ(refusal(""), refusal(" "));
  EXPECT_EQ(
      refusal(replaced(text, "tessera.probe/1", "tessera.probe/2")),
      "p.json:1: error E0607: schema is \"tessera.probe/2\"; this is \"tessera.probe/1\"\n"
      "   hint: a probe begins with \"schema\": \"tessera.probe/1\", a machine profile that has one with "
      "\"schema\": \"tessera.machine/1\"");
  EXPECT_EQ(refusal(replaced(text, "\"blocks_per_sm\": 1.0", "\"blocks_per_sm\": \"one\"")),
            "p.json:43: error E0604: the condition \"blocks_per_sm\" is a string, not a number");
  EXPECT_EQ(refusal(replaced(text, "\"samples\": 21", "\"sample\": 21")),
            "p.json:43: error E0603: \"samples\" is missing in a value of figure \"grid.barrier.own\"\n"
            "p.json:43: error E0605: unknown member \"sample\" in a value of figure \"grid.barrier.own\"\n"
            "   hint: did you mean \"samples\"?");
  EXPECT_EQ(refusal(replaced(text, "\"hung\"", "\"hanged\"")),
            "p.json:49: error E0604: \"answer\" in a verdict is not a known word: \"hanged\"\n"
            "   known: held, did not hold, hung, refused and completed");
  EXPECT_EQ(refusal(replaced(text, "\"p05\": -4.0", "\"p05\": 4")),
            "p.json:47: error E0604: \"p05\" of figure \"pair.hop.store\" is above its \"p95\"");
  EXPECT_EQ(refusal(replaced(text, "[100.0, 8.0, 1.0, 76700.0]", "[100.0, 8.0]")),
            "p.json:67: error E0604: a sample is not four numbers\n"
            "   hint: [iterations, work, synchronizations, ns]");
  EXPECT_EQ(refusal(replaced(text, "\"gpu\": ", "\"cpu\": ")),
            "p.json:3: error E0603: \"gpu\" of \"identity\" is missing\n"
            "p.json:4: error E0605: unknown member \"cpu\" in \"identity\"\n"
            "   hint: did you mean \"gpu\"?");
}

TEST(ProbeJson, ReadsTheProbeInARecord) {
  auto const probe = print_probe(made_up_probe());
  auto const record = [](std::string const& values) {
    return "{\"schema\": \"tessera-record/1\", \"command\": \"tessera-probe\", \"values\": " + values + "}";
  };
  EXPECT_EQ(parse_probe(record(probe), "r.json").value(), made_up_probe());
  EXPECT_EQ(refusal(record("{\"schema\": \"tessera.machine/1\"}")).substr(0, 31),
            "p.json:1: error E0604: \"schema\"");
  EXPECT_EQ(refusal(record("[]")).substr(0, 22), "p.json:1: error E0604:");
}

TEST(ProbeJson, TheSchemaHasEveryMember) {
  std::ifstream file(TESSERA_SOURCE_DIR "/machines/machine.schema.json");
  std::string const schema(std::istreambuf_iterator<char>(file), {});
  auto machine = tessera::machine("h200").value();
  machine.probe = made_up_probe();
  auto const text = print_machine(machine);
  std::regex const member("\"([a-z0-9_]+)\":");
  for (std::sregex_iterator it(text.begin(), text.end(), member), end; it != end; ++it) {
    auto const name = (*it)[1].str();
    // Conditions are anyone's.
    if (machine.probe->figures[0].at.count(name) != 0 || machine.probe->figures[2].at.count(name) != 0)
      continue;
    EXPECT_NE(schema.find('"' + name + "\": {"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace tessera
