// SPDX-License-Identifier: Apache-2.0
// Parameters by name: what is said to be read is, and what is said not to be is not.
#include "tessera/overlap/parameters.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "tessera/measure/machine_json.hpp"

namespace tessera {
namespace {

OverlapStudySettings small() {
  OverlapStudySettings settings{machine("t3").value(), {{"small", 512, 12, 1024, 1, {8}}}, {}, false, {}};
  settings.options.kernel = default_gemm_kernel(settings.machine);
  return settings;
}

std::vector<double> results(OverlapStudySettings const& settings) {
  auto const means = sub_layer_means(settings);
  EXPECT_TRUE(means.has_value()) << to_text(means.error());
  if (!means) return {};
  return {means->ideal.mean, means->t3.mean, means->t3_mca.mean, means->traffic_saved,
          means->gemm_reads.at(8)};
}

bool is_machines(std::string const& name) { return machine_number(small().machine, name).has_value(); }

TEST(Parameters, WhatIsNotReadChangesNothing) {
  auto changed = small();
  int count = 0;
  for (auto const& parameter : overlap_parameters()) {
    if (parameter.read || !is_machines(parameter.name)) continue;
    auto const now = machine_value(changed.machine, parameter.name);
    auto const value = parameter.kind == Parameter::Kind::flag ? (now == "true" ? "false" : "true")
                                                               : number_text(parameter.most);
    change(changed, {parameter.name, value});
    EXPECT_NE(machine_value(changed.machine, parameter.name), now) << parameter.name;
    ++count;
  }
  EXPECT_GT(count, 20);
  // All at their largest values contradict each other in places.
  ASSERT_FALSE(contradictions(changed.machine).empty());
  for (auto const& [name, value] : std::map<std::string, std::string>{{"dram_gbps", "1"},
                                                                      {"store_post_ns", "1"},
                                                                      {"shared_bytes_per_block", "1"},
                                                                      {"power_idle_w", "1"}})
    change(changed, {name, value});
  EXPECT_EQ(results(changed), results(small()));
}

TEST(Parameters, WhatIsReadChangesTheResults) {
  auto const base = results(small());
  for (auto const& parameter : overlap_parameters()) {
    if (!parameter.read || parameter.name.rfind("overlap.", 0) == 0 || !is_machines(parameter.name)) continue;
    bool differs = false;
    for (double const factor : {1.0 / 64, 0.125, 4.0}) {
      auto changed = small();
      change(changed, {"dram_gbps", "1"});  // not read, and the L2 must not be slower
      auto value = *machine_number(changed.machine, parameter.name) * factor;
      if (parameter.kind == Parameter::Kind::whole) value = std::round(value);
      if (value < parameter.least || value > parameter.most) continue;
      change(changed, {parameter.name, number_text(value)});
      if (contradictions(changed.machine).empty()) differs = differs || results(changed) != base;
    }
    EXPECT_TRUE(differs) << parameter.name;
  }
}

TEST(Parameters, OfKernelModelsAndRunsAreReadAsTheyAreChanged) {
  auto settings = small();
  settings.models.push_back({"other", 1024, 12, 2048, 1, {8, 16}});
  EXPECT_EQ(overlap_value(settings, "hidden"), "") << "the models differ";
  EXPECT_EQ(overlap_value(settings, "tile_m"), "256");
  for (auto const& parameter : overlap_parameters()) {
    if (is_machines(parameter.name)) continue;
    auto const value = parameter.words.empty() ? number_text(parameter.most) : parameter.words.back();
    change(settings, {parameter.name, value});
    EXPECT_EQ(overlap_value(settings, parameter.name), value) << parameter.name;
  }
  EXPECT_EQ(settings.options.run.arbitration, Arbitration::compute_first);
  EXPECT_EQ(settings.options.kernel.raster, Raster::swizzle);
  EXPECT_EQ(settings.models.back().tokens(), 1 << 24);
}

TEST(Parameters, RefusesMachinesThatContradictThemselves) {
  auto settings = small();
  change(settings, {"overlap.banks", "3"});
  auto const refused = sub_layer_means(settings);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().front().code, "E0606");
}

TEST(Parameters, MainModelsAreThoseOfThePapersMainFigures) {
  auto const main = main_models(t3_models());
  ASSERT_EQ(main.size(), 2U);
  EXPECT_EQ(main.back().name, "T-NLG");
  EXPECT_EQ(main_models({t3_models().back()}).size(), 1U);
}

}  // namespace
}  // namespace tessera
