// SPDX-License-Identifier: Apache-2.0
// Every parameter that the paper leaves open, or that a reader may doubt, over its plausible range.
#include <fmt/format.h>

#include <algorithm>

#include "overlap/study_parts.hpp"

namespace tessera::overlap {
namespace {

struct Change {
  std::string parameter, value, base;
  std::function<void(MachineProfile&, SubLayerOptions&)> apply;
};

class Changes {
 public:
  explicit Changes(OverlapStudySettings const& settings) : settings_(settings) {}

  template <class Owner, class T>
  void hardware(char const* name, T Owner::*member, std::vector<T> const& values) {
    auto const base = (*settings_.machine.overlap).*member;
    for (auto const value : values)
      if (value != base)
        add(name, fmt::format("{}", value), fmt::format("{}", base),
            [=](MachineProfile& m, SubLayerOptions&) { (*m.overlap).*member = value; });
  }
  /// Multiples of the machine's own value.
  void machine(char const* name, double MachineProfile::*member, std::vector<double> const& values) {
    auto const base = settings_.machine.*member;
    for (auto const value : values)
      if (value != base)
        add(name, fmt::format("{:g}", value), fmt::format("{:g}", base),
            [=](MachineProfile& m, SubLayerOptions&) { m.*member = value; });
  }
  void kernel(std::string const& name, std::string const& value, GemmKernel const& kernel) {
    if (kernel == settings_.options.kernel) return;
    auto const& k = settings_.options.kernel;
    add(name, value, describe(k), [=](MachineProfile&, SubLayerOptions& o) { o.kernel = kernel; });
  }
  void add(std::string parameter, std::string value, std::string base,
           std::function<void(MachineProfile&, SubLayerOptions&)> apply) {
    list.push_back({std::move(parameter), std::move(value), std::move(base), std::move(apply)});
  }

  static std::string describe(GemmKernel const& k) {
    constexpr char const* rasters[] = {"row", "column", "swizzle 8"};
    return fmt::format("{}x{}x{}, {} stages, {} per SM, {}", k.tile_m, k.tile_n, k.tile_k, k.stages,
                       k.groups_per_sm, rasters[static_cast<int>(k.raster)]);
  }

  std::vector<Change> list;

 private:
  OverlapStudySettings const& settings_;
};

std::vector<Change> changes(OverlapStudySettings const& settings) {
  Changes c(settings);
  using H = OverlapHardware;
  auto const& h = *settings.machine.overlap;
  for (auto const raster : {Raster::row, Raster::column, Raster::swizzle})
    for (int const groups : {1, 2}) {
      auto kernel = settings.options.kernel;
      kernel.raster = raster;
      kernel.groups_per_sm = groups;
      c.kernel("raster and occupancy", Changes::describe(kernel), kernel);
    }
  for (auto const& [m, n, groups] : {std::tuple{128, 128, 1}, {128, 128, 2}, {128, 64, 2}}) {
    auto kernel = settings.options.kernel;
    kernel.tile_m = m;
    kernel.tile_n = n;
    kernel.groups_per_sm = groups;
    c.kernel("tile", Changes::describe(kernel), kernel);
  }
  auto kernel = settings.options.kernel;
  ++kernel.stages;
  c.kernel("stages", Changes::describe(kernel), kernel);
  kernel = settings.options.kernel;
  kernel.tile_k /= 2;
  c.kernel("slice of k", Changes::describe(kernel), kernel);
  c.machine("matrix_efficiency", &MachineProfile::matrix_efficiency, {0.7, 0.8, 0.95});
  c.machine("l2_mib", &MachineProfile::l2_mib, {settings.machine.l2_mib / 2, settings.machine.l2_mib * 2});
  c.machine("block_start_ns", &MachineProfile::block_start_ns, {0, 2 * settings.machine.block_start_ns});
  c.hardware("link_gbps", &H::link_gbps, {h.link_gbps * 2 / 3, h.link_gbps * 4 / 3, h.link_gbps * 2});
  c.hardware("link_latency_ns", &H::link_latency_ns, {100.0, 5000.0});
  c.hardware("memory_request_ns", &H::memory_request_ns, {h.memory_request_ns / 2, h.memory_request_ns * 3});
  c.hardware("dram_clock_ghz", &H::dram_clock_ghz, {h.dram_clock_ghz * 0.75, h.dram_clock_ghz * 1.5});
  c.hardware("bank_groups_lowest", &H::bank_groups_lowest, {!h.bank_groups_lowest});
  c.hardware("queue_entries", &H::queue_entries, {h.queue_entries / 2, h.queue_entries * 2});
  c.hardware("ccdwl", &H::ccdwl, {h.ccdl, 2 * h.ccdwl});
  c.hardware("dma_read_ahead_kib", &H::dma_read_ahead_kib, {64, 1024});
  c.hardware("starvation_cycles", &H::starvation_cycles, {0, 3, 20, 100});
  for (auto const& [factor, word] : {std::pair{0.5, "halved"}, {2.0, "doubled"}})
    c.add("occupancies of the threshold's rule", word,
          fmt::format("{:g}, {:g}, {:g}", h.occupancy_low, h.occupancy_medium, h.occupancy_high),
          [f = factor](MachineProfile& m, SubLayerOptions&) {
            for (auto* o :
                 {&m.overlap->occupancy_low, &m.overlap->occupancy_medium, &m.overlap->occupancy_high})
              *o = std::min(1.0, *o * f);
          });
  for (int const threshold : {h.threshold_high, h.threshold_medium, h.threshold_low, h.queue_entries})
    c.add("threshold for all", fmt::format("{}", threshold), "by the rule",
          [=](MachineProfile&, SubLayerOptions& o) { o.run.fixed_threshold = threshold; });
  c.add("arbitration of T3", "compute first, no threshold", "round robin",
        [](MachineProfile&, SubLayerOptions& o) { o.run.arbitration = Arbitration::compute_first; });
  c.add("near-memory updates", "at the cost of writes", "op-and-store",
        [](MachineProfile&, SubLayerOptions& o) { o.run.near_memory = false; });
  for (int const bytes : {2, 8, 16})
    c.add("bytes under way in a thread of the collectives", fmt::format("{}", bytes),
          fmt::format("{}", settings.options.bytes_per_thread),
          [=](MachineProfile&, SubLayerOptions& o) { o.bytes_per_thread = bytes; });
  c.add("wavefront tiles in a copy command", "8", fmt::format("{}", settings.options.granularity),
        [](MachineProfile&, SubLayerOptions& o) { o.granularity = 8; });
  return c.list;
}

}  // namespace

Expected<std::vector<SweepPoint>> sweep(OverlapStudySettings const& settings) {
  std::vector<TransformerModel> models;
  for (auto const& model : settings.models) {
    auto main = model;
    std::erase_if(main.tensor_parallel, [](int tp) { return tp >= 32; });
    if (!main.tensor_parallel.empty()) models.push_back(main);
  }
  if (models.empty()) models = settings.models;
  auto const list = changes(settings);
  std::vector<Expected<SweepPoint>> points(list.size(), SweepPoint{});
  for_all(settings.parallel, list.size(), [&](std::size_t i) {
    auto machine = settings.machine;
    auto options = settings.options;
    list[i].apply(machine, options);
    auto const runs =
        run_sub_layers(machine, models, {k_sub_layers.begin(), k_sub_layers.end()}, options, {});
    // A tile shape that does not divide a custom model's output is no point of the sweep.
    if (!runs) {
      points[i] = tl::make_unexpected(runs.error());
      return;
    }
    SweepPoint point{list[i].parameter, list[i].value, list[i].base, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    std::vector<double> ideal, t3, mca, reads_8, reads_16;
    for (auto const& run : *runs) {
      ideal.push_back(run.speedup(run.ideal()));
      t3.push_back(run.speedup(run.fused()));
      mca.push_back(run.speedup(run.fused_mca()));
      point.traffic_saved +=
          (1 - moved_fused(run) / moved_sequential(run)) / static_cast<double>(runs->size());
      if (run.tensor_parallel == 8 || run.tensor_parallel == 16)
        (run.tensor_parallel == 8 ? reads_8 : reads_16)
            .push_back(bytes_of(run.gemm, Traffic::gemm_read) / bytes_of(run.t3_mca, Traffic::gemm_read));
    }
    point.ideal = spread_of(ideal).mean;
    point.ideal_most = spread_of(ideal).most;
    point.t3 = spread_of(t3).mean;
    point.t3_most = spread_of(t3).most;
    point.t3_mca = spread_of(mca).mean;
    point.t3_mca_most = spread_of(mca).most;
    point.gemm_reads_8 = spread_of(reads_8).mean;
    point.gemm_reads_16 = spread_of(reads_16).mean;
    points[i] = point;
  });
  std::vector<SweepPoint> out;
  for (auto& point : points) {
    if (point)
      out.push_back(std::move(*point));
    else if (point.error().front().code != "E0543")
      return tl::make_unexpected(point.error());
  }
  return out;
}

}  // namespace tessera::overlap
