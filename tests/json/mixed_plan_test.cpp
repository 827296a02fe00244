// SPDX-License-Identifier: Apache-2.0
// Plans with launches of several kinds as JSON, and files of version 1.
#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <fstream>
#include <sstream>

#include "support/random_plan.hpp"
#include "tessera/check/check.hpp"
#include "tessera/plan/plan_json.hpp"

namespace tessera {
namespace {

std::string read(std::string const& path) {
  std::ostringstream text;
  text << std::ifstream(TESSERA_SOURCE_DIR "/" + path).rdbuf();
  return text.str();
}

RC_GTEST_PROP(PlanJson, random_plans_read_back_the_same, ()) {
  auto plan = (*random::plans()).plan;
  // Refused otherwise: E0261.
  for (auto const& launch : plan.launches)
    for (int s = launch.first; launch.workers > 0 && s < launch.end(); ++s)
      plan.stages[static_cast<std::size_t>(s)].custom_order = true;
  RC_PRE(check(plan.pipeline).has_value());
  for (auto const& set : plan.semaphores) {
    auto const grid = plan.pipeline.stages[static_cast<std::size_t>(set.producer)].tile_grid();
    for (int d = 0; d < k_max_rank; ++d)
      if (set.map.dimension[d].width > grid.extent[d]) return;  // refused: E0258
  }
  plan.stages.back().variant = *rc::gen::element<std::string>("", "algorithm 7", "a \"b\"");
  auto const text = print_plan(plan);
  auto const again = parse_plan(text, "plan.json");
  if (!again) RC_FAIL(to_text(again.error()));
  RC_ASSERT(again->launches == plan.launches);
  RC_ASSERT(again->stages == plan.stages);
  RC_ASSERT(again->reuse_edges == plan.reuse_edges);
  RC_ASSERT(print_plan(*again) == text);
}

TEST(PlanJson, files_of_version_1_are_read) {
  auto const fused = parse_plan(read("fuzz/corpus/plan_json/fused.json"), "fused.json");
  ASSERT_TRUE(fused) << to_text(fused.error());
  ASSERT_EQ(fused->launches.size(), 1u);
  auto const& launch = fused->launches.front();
  EXPECT_EQ(launch.stages, static_cast<int>(fused->pipeline.stages.size()));
  EXPECT_GT(launch.workers, 0);
  EXPECT_FALSE(launch.tickets.empty());

  auto const beside = parse_plan(read("fuzz/corpus/plan_json/wait_kernel.json"), "wait_kernel.json");
  ASSERT_TRUE(beside) << to_text(beside.error());
  EXPECT_EQ(mechanism_text(*beside), "wait kernel");
  for (auto const& one : beside->launches) EXPECT_EQ(one.wait_kernel, one.first > 0);

  // Under PDL every block waited before its stores: a reuse edge says so now.
  auto text = read("fuzz/corpus/plan_json/fused.json");
  auto const replace = [&](std::string const& from, std::string const& to) {
    auto const at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  };
  auto const cut = [&](std::string const& from, std::string const& to) {
    auto const begin = text.find(from);
    auto const end = text.find(to, begin);
    ASSERT_NE(end, std::string::npos) << from;
    text.erase(begin, end - begin);
  };
  replace("\"fused\"", "\"pdl\"");
  cut("\"workers\"", "\"alternatives\"");
  cut("\"semaphores\"", "\"dependences\": [{\"semaphore_set\"");
  replace("\"dependences\": [{\"semaphore_set\": 0}, {\"semaphore_set\": 1}]",
          "\"semaphores\": [], \"dependences\": [{}, {}]");
  cut("\"reuse_edges\"", "\"alternatives\"");
  replace("\"alternatives\"", "\"reuse_edges\": [], \"alternatives\"");
  auto const pdl = parse_plan(text, "pdl.json");
  ASSERT_TRUE(pdl) << to_text(pdl.error());
  EXPECT_EQ(mechanism_text(*pdl), "PDL");
  ASSERT_EQ(pdl->reuse_edges.size(), 1u);
  EXPECT_EQ(kept_by(*pdl, pdl->reuse_edges.front()), KeptBy::grid_wait);
  // Written in this version, it reads back the same.
  auto const again = parse_plan(print_plan(*pdl), "pdl.json");
  ASSERT_TRUE(again) << to_text(again.error());
  EXPECT_EQ(print_plan(*again), print_plan(*pdl));
  auto twice = *pdl;
  twice.reuse_edges.push_back(twice.reuse_edges.front());
  auto const refused = parse_plan(print_plan(twice), "pdl.json");
  ASSERT_FALSE(refused);
  EXPECT_NE(to_text(refused.error()).find("error E0260: this reuse edge is given twice"), std::string::npos);
}

}  // namespace
}  // namespace tessera
