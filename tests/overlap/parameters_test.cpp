// SPDX-License-Identifier: Apache-2.0
// Parameters by name: what is said to be read is, and what is said not to be is not.
#include "tessera/overlap/parameters.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "support/cases.hpp"
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
  for (auto const& [name, value] : std::map<std::string, std::string>{
           {"dram_gbps", "1"}, {"store_post_ns", "1"}, {"power_idle_w", "1"}, {"has_pdl", "false"}})
    change(changed, {name, value});
  EXPECT_EQ(results(changed), results(small()));
}

/// A value of the machine's number, or nothing that fits its kind and range.
std::string value_at(Parameter const& parameter, double value) {
  if (parameter.kind == Parameter::Kind::flag) return value != 0 ? "true" : "false";
  if (parameter.kind == Parameter::Kind::whole) value = std::round(value);
  return value < parameter.least || value > parameter.most ? "" : number_text(value);
}

/// True if a change of the number changes a result, or has the kernel refused.
bool matters(OverlapStudySettings const& base, Parameter const& parameter) {
  auto const before = sub_layer_means(base);
  auto const now = *machine_number(base.machine, parameter.name);
  for (double const value :
       {now / 64, now / 8, now * 4, now / 2, now * 2, 1 - now, 0.5, 1.0, 4.0, 64.0, parameter.most}) {
    auto changed = base;
    auto const text = value_at(parameter, value);
    if (text.empty()) continue;
    change(changed, {parameter.name, text});
    if (!contradictions(changed.machine).empty()) continue;
    auto const after = sub_layer_means(changed);
    if (!after && after.error().front().code != "E0546") continue;
    if (!after || !(after->ideal.mean == before->ideal.mean && after->t3.mean == before->t3.mean &&
                    after->t3_mca.mean == before->t3_mca.mean && after->gemm_reads == before->gemm_reads))
      return true;
  }
  return false;
}

using Settings = std::vector<SweepSetting>;

OverlapStudySettings small_with(Settings const& settings) {
  auto base = small();
  change(base, {"dram_gbps", "1"});  // not read, and the L2 must not be slower
  for (auto const& setting : settings) change(base, setting);
  return base;
}

/// Places around which each number is changed: not every number matters everywhere.
std::vector<OverlapStudySettings> places() {
  // A compute stream that keeps communication waiting, so that the threshold decides. The kernel is of high,
  // medium and low intensity by where the classes begin.
  auto const rule = [](char const* low, char const* medium, char const* high) {
    return small_with({{"overlap.starvation_cycles", "0"},
                       {"overlap.threshold_high", "1"},
                       {"overlap.threshold_medium", "16"},
                       {"overlap.threshold_low", "40"},
                       {"overlap.occupancy_low", low},
                       {"overlap.occupancy_medium", medium},
                       {"overlap.occupancy_high", high}});
  };
  return {small_with({}),
          small_with({{"groups_per_sm", "2"}, {"shared_bytes_per_block", "65536"}}),  // limits of two groups
          small_with({{"l2_mib", "0.25"}}),                                           // lines are evicted
          rule("0.001", "0.001", "0.001"),
          rule("0.001", "0.001", "1"),
          rule("0.001", "1", "1")};
}

TEST(Parameters, WhatIsReadChangesTheResults) {
  auto const around = places();
  int number = 0;
  for (auto const& parameter : overlap_parameters()) {
    if (!parameter.read || !is_machines(parameter.name)) continue;
    if (support::k_sanitized && number++ % 8 != 0) continue;
    EXPECT_TRUE(std::any_of(around.begin(), around.end(), [&](auto const& place) {
      return matters(place, parameter);
    })) << parameter.name;
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

TEST(Parameters, TheSizeOfTheTrackerIsCountedOnly) {
  for (auto const& parameter : overlap_parameters())
    if (parameter.name.rfind("overlap.", 0) == 0) {
      EXPECT_EQ(parameter.read, parameter.name.rfind("overlap.tracker_", 0) != 0) << parameter.name;
    }
}

TEST(Parameters, MainModelsAreThoseOfThePapersMainFigures) {
  auto const main = main_models(t3_models());
  ASSERT_EQ(main.size(), 2U);
  EXPECT_EQ(main.back().name, "T-NLG");
  EXPECT_EQ(main_models({t3_models().back()}).size(), 1U);
}

}  // namespace
}  // namespace tessera
