// SPDX-License-Identifier: Apache-2.0
// Every parameter that the paper leaves open, or that a reader may doubt, over its plausible range.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "overlap/study_parts.hpp"
#include "tessera/overlap/parameters.hpp"

namespace tessera::overlap {
namespace {

struct Change {
  std::string parameter, value, base;
  std::vector<SweepSetting> settings;
};

std::string describe(GemmKernel const& k) {
  constexpr char const* rasters[] = {"row", "column", "swizzle 8"};
  return fmt::format("{}x{}x{}, {} stages, {} per SM, {}", k.tile_m, k.tile_n, k.tile_k, k.stages,
                     k.groups_per_sm, rasters[static_cast<int>(k.raster)]);
}

class Changes {
 public:
  explicit Changes(OverlapStudySettings const& settings) : settings_(settings) {}

  double number(std::string const& name) const { return number_of(base(name)).value_or(0); }
  std::string base(std::string const& name) const { return overlap_value(settings_, name); }

  void values(std::string const& name, std::string const& shown, std::vector<std::string> const& choices) {
    for (auto const& value : choices)
      if (value != base(name)) add(shown, value, base(name), {{name, value}});
  }
  void machine(std::string const& name, std::vector<double> const& choices) {
    values(name, name, texts(choices));
  }
  void hardware(std::string const& name, std::vector<double> const& choices) {
    values("overlap." + name, name, texts(choices));
  }
  void kernel(std::string const& shown, std::vector<SweepSetting> settings) {
    auto changed = settings_;
    for (auto const& setting : settings) change(changed, setting);
    auto const& before = settings_.options.kernel;
    auto const& after = changed.options.kernel;
    if (after != before) add(shown, describe(after), describe(before), std::move(settings));
  }
  void add(std::string shown, std::string value, std::string base, std::vector<SweepSetting> settings) {
    list.push_back({std::move(shown), std::move(value), std::move(base), std::move(settings)});
  }

  static std::vector<std::string> texts(std::vector<double> const& numbers) {
    std::vector<std::string> out;
    for (double const number : numbers) out.push_back(number_text(number));
    return out;
  }

  std::vector<Change> list;

 private:
  OverlapStudySettings const& settings_;
};

std::vector<Change> changes(OverlapStudySettings const& settings) {
  Changes c(settings);
  auto const& h = *settings.machine.overlap;
  auto const& k = settings.options.kernel;
  for (auto const* raster : {"row", "column", "swizzle"})
    for (auto const* groups : {"1", "2"})
      c.kernel("raster and occupancy", {{"raster", raster}, {"groups_per_sm", groups}});
  for (auto const& [m, n, groups] : {std::tuple{"128", "128", "1"}, {"128", "128", "2"}, {"128", "64", "2"}})
    c.kernel("tile", {{"tile_m", m}, {"tile_n", n}, {"groups_per_sm", groups}});
  c.kernel("stages", {{"stages", number_text(k.stages + 1)}});
  c.kernel("slice of k", {{"tile_k", std::to_string(k.tile_k / 2)}});
  auto const l2 = c.number("l2_mib");
  c.machine("matrix_efficiency", {0.7, 0.8, 0.95});
  c.machine("l2_mib", {l2 / 2, l2 * 2});
  c.machine("sm_load_gbps", {2 * c.number("sm_load_gbps")});
  c.machine("block_start_ns", {0, 2 * c.number("block_start_ns")});
  c.hardware("link_gbps", {h.link_gbps * 2 / 3, h.link_gbps * 4 / 3, h.link_gbps * 2});
  c.hardware("link_latency_ns", {100, 5000});
  c.hardware("memory_request_ns", {h.memory_request_ns / 2, h.memory_request_ns * 3});
  c.hardware("dram_clock_ghz", {h.dram_clock_ghz * 0.75, h.dram_clock_ghz * 1.5});
  c.values("overlap.bank_groups_lowest", "bank_groups_lowest", {h.bank_groups_lowest ? "false" : "true"});
  c.hardware("l2_ways", {std::floor(h.l2_ways / 3.0), h.l2_ways * 2.0});
  c.hardware("l2_misses", {0, std::floor(h.l2_misses / 4.0)});
  c.hardware("l2_to_dram_entries", {0, std::floor(h.l2_to_dram_entries / 4.0)});
  c.hardware("queue_entries", {std::floor(h.queue_entries / 2.0), h.queue_entries * 2.0});
  c.hardware("ccdwl", {static_cast<double>(h.ccdl), 2.0 * h.ccdwl});
  c.hardware("dma_read_ahead_kib", {64, 1024});
  c.hardware("starvation_cycles", {0, 3, 20, 100});
  c.add("links of twice the speed, and starvation_cycles", number_text(h.link_gbps * 2) + ", none",
        fmt::format("{:g}, {}", h.link_gbps, h.starvation_cycles),
        {{"overlap.link_gbps", number_text(h.link_gbps * 2)}, {"overlap.starvation_cycles", "0"}});
  for (auto const& [factor, word] : {std::pair{0.5, "halved"}, {2.0, "doubled"}}) {
    std::vector<SweepSetting> all;
    for (auto const& [name, value] : {std::pair{"overlap.occupancy_low", h.occupancy_low},
                                      {"overlap.occupancy_medium", h.occupancy_medium},
                                      {"overlap.occupancy_high", h.occupancy_high}})
      all.push_back({name, number_text(std::min(1.0, value * factor))});
    c.add("occupancies of the threshold's rule", word,
          fmt::format("{:g}, {:g}, {:g}", h.occupancy_low, h.occupancy_medium, h.occupancy_high), all);
  }
  for (int const threshold : {h.threshold_high, h.threshold_medium, h.threshold_low, h.queue_entries})
    c.add("threshold for all", std::to_string(threshold), "by the rule",
          {{"fixed_threshold", std::to_string(threshold)}});
  c.add("arbitration of T3", "compute first, no threshold", "round robin",
        {{"arbitration", "compute_first"}});
  c.add("near-memory updates", "at the cost of writes", "op-and-store", {{"near_memory", "false"}});
  for (auto const* bytes : {"2", "8", "16"})
    c.add("bytes under way in a thread of the collectives", bytes, c.base("bytes_per_thread"),
          {{"bytes_per_thread", bytes}});
  c.add("wavefront tiles in a copy command", "8", c.base("granularity"), {{"granularity", "8"}});
  return c.list;
}

}  // namespace

Expected<std::vector<SweepPoint>> sweep(OverlapStudySettings const& settings) {
  auto const list = changes(settings);
  std::vector<Expected<SweepPoint>> points(list.size(), SweepPoint{});
  for_all(settings.parallel, list.size(), [&](std::size_t i) {
    auto changed = settings;
    changed.models = main_models(settings.models);
    changed.parallel = {};
    for (auto const& setting : list[i].settings) change(changed, setting);
    auto const means = sub_layer_means(changed);
    // A tile shape that does not divide a custom model's output, or that an SM cannot hold, is no point of
    // the sweep.
    if (!means) {
      points[i] = tl::make_unexpected(means.error());
      return;
    }
    auto const reads = [&](int gpus) {
      auto const found = means->gemm_reads.find(gpus);
      return found == means->gemm_reads.end() ? 0 : found->second;
    };
    points[i] = SweepPoint{list[i].parameter,  list[i].value,        list[i].base,      means->ideal.mean,
                           means->t3.mean,     means->t3_mca.mean,   means->ideal.most, means->t3.most,
                           means->t3_mca.most, means->traffic_saved, reads(8),          reads(16)};
  });
  std::vector<SweepPoint> out;
  for (auto& point : points) {
    if (point)
      out.push_back(std::move(*point));
    else if (auto const& code = point.error().front().code; code != "E0543" && code != "E0546")
      return tl::make_unexpected(point.error());
  }
  return out;
}

}  // namespace tessera::overlap
