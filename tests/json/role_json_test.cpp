// SPDX-License-Identifier: Apache-2.0
// Loops with roles as files.
#include "tessera/simulate/role_json.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tessera/measure/machine_json.hpp"

namespace tessera {
namespace {

std::string example() {
  std::ifstream file(TESSERA_SOURCE_DIR "/bench/few_tokens/mixtral_chain.json");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string with(std::string const& from, std::string const& to) {
  auto text = example();
  auto const at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string refusal(std::string const& text) {
  auto const made = parse_roles(text, "roles.json");
  EXPECT_FALSE(made);
  return made ? "" : to_text(made.error());
}

TEST(RoleJson, IsReadBackAsItWasPrinted) {
  auto const text = example();
  auto const roles = parse_roles(text, "roles.json");
  ASSERT_TRUE(roles) << to_text(roles.error());
  EXPECT_EQ(print_roles(*roles), text);
  ASSERT_EQ(roles->work.size(), 2u);
  EXPECT_EQ(roles->work[0].slots, 16);
  EXPECT_EQ(roles->work[1].late_slots_at_once, 1);
  EXPECT_EQ(roles->rings.slots, 7);
  EXPECT_EQ(roles->rings.in_flight, 2);
  EXPECT_EQ(roles->tokens, (std::vector<std::string>{"h", "x"}));
}

TEST(RoleJson, BytesByWhichTilesAreDealtMayBeThere) {
  auto const roles =
      parse_roles(with("\"rings\":", "\"tile_bytes\": [444850, 222425], \"rings\":"), "r.json");
  ASSERT_TRUE(roles) << to_text(roles.error());
  EXPECT_EQ(roles->tile_bytes, (std::vector<long long>{444850, 222425}));
  auto const again = parse_roles(print_roles(*roles), "again.json");
  ASSERT_TRUE(again) << to_text(again.error());
  EXPECT_EQ(again->tile_bytes, roles->tile_bytes);
  auto const profile = machine("h200");
  ASSERT_TRUE(profile);
  EXPECT_EQ(plan_roles(*roles, *profile, 1)->tile_bytes, roles->tile_bytes);
  EXPECT_EQ(refusal(with("\"rings\":", "\"tile_bytes\": [1.5, 2], \"rings\":")),
            "roles.json:36: error E0203: \"tile_bytes\" has a whole number for each stage");
}

TEST(RoleJson, IsPlannedWithABlockOnEachSm) {
  auto const roles = parse_roles(example(), "roles.json");
  ASSERT_TRUE(roles);
  auto const profile = machine("h200");
  ASSERT_TRUE(profile);
  auto const loop = plan_roles(*roles, *profile, 3);
  ASSERT_TRUE(loop) << to_text(loop.error());
  EXPECT_EQ(loop->plan.plan.launches.front().workers, profile->sms);
  EXPECT_EQ(loop->iterations, 3);
  EXPECT_TRUE(simulate_roles(*loop, role_machine(*profile)));
  auto wrong = *roles;
  wrong.tokens = {"nobody's"};
  EXPECT_FALSE(plan_roles(wrong, *profile, 3));
}

TEST(RoleJson, RefusalsNameTheLine) {
  EXPECT_NE(refusal("{").find("roles.json:1: error E0201"), std::string::npos);
  EXPECT_EQ(refusal(with("tessera.roles/1", "tessera.roles/9")),
            "roles.json:2: error E0205: schema \"tessera.roles/9\" is not \"tessera.roles/1\"");
  EXPECT_EQ(refusal(with("\"slots\": 7, ", "")),
            "roles.json:36: error E0202: \"slots\" is missing in the rings");
  EXPECT_EQ(
      refusal(with("\"slots\": 16,", "\"slots\": -1,")),
      "roles.json:39: error E0203: \"slots\" in the work of stage \"up\" must be between 0 and 1073741824, "
      "not -1");
  EXPECT_EQ(refusal(with("\"slot_ns\"", "\"slot_us\"")),
            "roles.json:47: error E0204: unknown member \"slot_us\" in the work of stage \"up\"\n"
            "   hint: did you mean \"slot_ns\"?");
  EXPECT_EQ(refusal(with("[\"h\", \"x\"]", "[\"h\", 1]")),
            "roles.json:35: error E0203: \"tokens\" has names of buffers");
  EXPECT_NE(refusal(with("\"down\": {\n      \"slots\"", "\"down_\": {\n      \"slots\"")).find("\"down\""),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
