// SPDX-License-Identifier: Apache-2.0
// Runs of a decoder as files: printed and read back, and refused with their lines.
#include <gmock/gmock.h>

#include "tessera/measure/generation.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;

Generation some() {
  Generation g;
  g.identity.gpu = "NVIDIA H200", g.identity.driver = "580.1, CUDA 13.0", g.identity.sms = 132;
  g.identity.commit = "abc", g.identity.date = "2026-11-23T09:00:00Z", g.identity.sm_clock_ghz = 1.98;
  g.command = "tessera run m --decode", g.model = "m", g.weights = "random, seed 1";
  g.layers = 2, g.capacity = 12;
  g.sequences = {{{1, 2, 3, 40, 50}, 3}, {{7, 8, 9}, 1}};
  g.prompt_us = 3000, g.step_us = {100.5, 98}, g.steps = {8, 2};
  g.step_bytes = 1e6, g.floor_us = 50;
  g.operators = {{"qkv", 1, 2, 0.5, 0.25}, {"down", -0.1, 2, 0.5, 0.25}};
  g.alone = {{"norm", 1.25}, {"attention", 51.5}};
  return g;
}

std::string changed(std::string const& from, std::string const& to) {
  auto text = print_generation(some());
  auto const at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  auto const found = parse_generation(text, "g.json");
  return found ? "taken" : to_text(found.error());
}

TEST(GenerationJson, PrintsAndReadsBackTheSame) {
  auto const text = print_generation(some());
  auto const again = parse_generation(text, "g.json");
  ASSERT_TRUE(again) << to_text(again.error());
  EXPECT_EQ(*again, some());
  EXPECT_EQ(print_generation(*again), text);
}
TEST(GenerationJson, MistakesHaveLines) {
  EXPECT_THAT(changed("tessera.generation/1", "tessera.plan/2"), HasSubstr("g.json:2: error E0604"));
  EXPECT_THAT(changed("\"prompt\": 3", "\"prompt\": 6"),
              HasSubstr("a sequence of 5 tokens with a prompt of 6"));
  EXPECT_THAT(changed("[8, 100.5]", "[0, 100.5]"), HasSubstr("[steps, microseconds of one]"));
  EXPECT_THAT(changed("[8, 100.5]", "7"), HasSubstr("times of steps are not two numbers"));
  EXPECT_THAT(changed("\"layers\": 2", "\"layers\": 0"), HasSubstr("\"layers\" must be between 1 and"));
  EXPECT_THAT(changed("\"us\": 1.25", "\"us\": -1"),
              HasSubstr("\"us\" in an operator must be between 0 and"));
  EXPECT_THAT(changed("\"model\": \"m\"", "\"modle\": \"m\""), HasSubstr("\"model\" is missing"));
}

}  // namespace
}  // namespace tessera
