// SPDX-License-Identifier: Apache-2.0
// Section 7 of T3's paper: several nodes, few tokens, lower precision; and what the Tracker has to hold.
#include "tessera/overlap/extensions.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "overlap/study_parts.hpp"

namespace tessera::overlap {
namespace {

/// A model on one of its numbers of GPUs.
struct Deployment {
  TransformerModel model;
  int gpus;
};

/// Those of the settings' models that `wanted` takes, or all if it takes none.
template <class Wanted>
std::vector<Deployment> deployments(std::vector<TransformerModel> const& models, Wanted const& wanted) {
  std::vector<Deployment> some, all;
  for (auto const& model : models)
    for (int const gpus : model.tensor_parallel) {
      all.push_back({model, gpus});
      if (wanted(model, gpus)) some.push_back(all.back());
    }
  return some.empty() ? all : some;
}

Expected<SubLayerRuns> alone_and_fused(MachineProfile const& machine, Deployment const& deployment,
                                       SubLayer layer, SubLayerOptions const& options) {
  auto const collectives = run_collectives(machine, deployment.model, deployment.gpus, options);
  if (!collectives) return tl::make_unexpected(collectives.error());
  return run_sub_layer(machine, deployment.model, deployment.gpus, layer, options, *collectives);
}

/// The points that exist: an output that does not divide among the GPUs (E0543) is none.
template <class T>
Expected<std::vector<T>> existing(std::vector<Expected<T>>& points) {
  std::vector<Expected<T>> kept;
  for (auto& point : points)
    if (point || point.error().front().code != "E0543") kept.push_back(std::move(point));
  return collected(kept);
}

/// `atom_row`: bytes of one request to every memory channel, which a wavefront stores at least.
GemmKernel few_rows_kernel(GemmKernel kernel, std::int64_t rows, std::int64_t columns, int gpus,
                           std::int64_t atom_row) {
  auto const held = (kernel.tile_m + kernel.tile_n) * kernel.stages;
  int height = 16;
  while (height < rows && height < kernel.tile_m) height *= 2;
  kernel.tile_m = std::min(kernel.tile_m, height);
  // One row of tiles: as many columns of them as the GPUs can share. More rows are shared by rows.
  while (rows <= kernel.tile_m && kernel.tile_n > 16 &&
         (columns + kernel.tile_n - 1) / kernel.tile_n % gpus != 0)
    kernel.tile_n /= 2;
  kernel.stages = std::clamp(held / (kernel.tile_m + kernel.tile_n), kernel.stages, 16);
  auto const tile_bytes = std::min<std::int64_t>(rows, kernel.tile_m) * kernel.tile_n * 2;
  kernel.wavefronts = static_cast<int>(std::clamp<std::int64_t>(tile_bytes / atom_row, 1, kernel.wavefronts));
  return kernel;
}

}  // namespace

// Links between nodes: 200 and 100 Gbit/s for each GPU, as InfiniBand HDR and EDR; 2 us from memory to
// memory.
Expected<std::vector<NodeRing>> node_rings(OverlapStudySettings const& settings) {
  struct Wanted {
    Deployment deployment;
    SubLayer layer;
    double gbps, latency;
  };
  auto const& own = *settings.machine.overlap;
  std::vector<Wanted> wanted;
  for (auto const &deployment :
       deployments(settings.models, [](auto const&m, int gpus) { return m.hidden < 8192 && gpus == 16; }))
    for (auto const layer : {SubLayer::output_projection, SubLayer::fc2}) {
      wanted.push_back({deployment, layer, own.link_gbps, own.link_latency_ns});
      for (double const gbps : {25.0, 12.5})
        if (gbps < own.link_gbps) wanted.push_back({deployment, layer, gbps, 2000});
    }
  std::vector<Expected<NodeRing>> points(wanted.size(), NodeRing{});
  for_all(settings.parallel, wanted.size(), [&](std::size_t i) {
    auto const& w = wanted[i];
    auto machine = settings.machine;
    machine.overlap->link_gbps = w.gbps;
    machine.overlap->link_latency_ns = w.latency;
    auto runs = alone_and_fused(machine, w.deployment, w.layer, settings.options);
    points[i] = runs ? Expected<NodeRing>(NodeRing{w.gbps, w.latency, std::move(*runs)})
                     : tl::make_unexpected(runs.error());
  });
  return existing(points);
}

Expected<std::vector<GenerationPoint>> generation(OverlapStudySettings const& settings,
                                                  std::vector<std::int64_t> const& rows) {
  struct Wanted {
    Deployment deployment;
    SubLayer layer;
  };
  std::vector<Wanted> wanted;
  for (auto& deployment : deployments(settings.models, [](auto const&m, int) {
         return m.name == "Mega-GPT-2" || m.name == "T-NLG" || m.name == "GPT-3";
       }))
    for (auto const layer : {SubLayer::output_projection, SubLayer::fc2})
      for (auto const tokens : rows) {
        deployment.model.sequence = 1;
        deployment.model.batch = tokens;
        wanted.push_back({deployment, layer});
      }
  // A machine without links and memory channels is refused by the runs.
  auto const atom_row = settings.machine.overlap ? settings.machine.overlap->channels * 32 : 32;
  std::vector<Expected<GenerationPoint>> points(wanted.size(), GenerationPoint{});
  for_all(settings.parallel, wanted.size(), [&](std::size_t i) {
    auto const& [deployment, layer] = wanted[i];
    auto options = settings.options;
    options.kernel = few_rows_kernel(options.kernel, deployment.model.tokens(), deployment.model.hidden,
                                     deployment.gpus, atom_row);
    auto runs = alone_and_fused(settings.machine, deployment, layer, options);
    points[i] = runs ? Expected<GenerationPoint>(GenerationPoint{options.kernel, std::move(*runs)})
                     : tl::make_unexpected(runs.error());
  });
  return existing(points);
}

Expected<std::vector<SplitPoint>> split_k(OverlapStudySettings const& settings,
                                          std::vector<GenerationPoint> const& points,
                                          std::vector<int> const& splits) {
  std::vector<SplitPoint> wanted;
  for (auto const& [kernel, runs] : points)
    for (int const s : splits) {
      auto const slices = (runs.problem.k + kernel.tile_k - 1) / kernel.tile_k;
      if (slices < 2 * s) continue;
      wanted.push_back({kernel, runs, runs});
      wanted.back().kernel.splits = s;
    }
  std::vector<Expected<SplitPoint>> done(wanted.size(), SplitPoint{});
  for_all(settings.parallel, wanted.size(), [&](std::size_t i) {
    auto options = settings.options;
    options.kernel = wanted[i].kernel;
    auto split = run_gemm_with_ring(settings.machine, wanted[i].whole, options);
    if (!split) {
      done[i] = tl::make_unexpected(split.error());
      return;
    }
    wanted[i].split = std::move(*split);
    done[i] = std::move(wanted[i]);
  });
  return collected(done);
}

Expected<std::vector<PrecisionPoint>> precisions(OverlapStudySettings const& settings,
                                                 std::vector<SubLayerRuns> const& sub_layers) {
  std::vector<SubLayerRuns const*> wanted;
  for (auto const& runs : sub_layers)
    if (runs.layer == SubLayer::output_projection || runs.layer == SubLayer::fc2) wanted.push_back(&runs);
  std::vector<Expected<PrecisionPoint>> points(wanted.size(), PrecisionPoint{});
  for_all(settings.parallel, wanted.size(), [&](std::size_t i) {
    PrecisionPoint point{*wanted[i], *wanted[i]};
    point.fp8.problem.k = (point.fp8.problem.k + 1) / 2;
    auto const runs = run_gemm_with_ring(settings.machine, std::move(point.fp8), settings.options);
    points[i] = runs ? Expected<PrecisionPoint>(PrecisionPoint{*wanted[i], std::move(*runs)})
                     : tl::make_unexpected(runs.error());
  });
  return collected(points);
}

Expected<std::vector<TrackerNeed>> tracker_needs(OverlapStudySettings const& settings,
                                                 std::vector<SubLayerRuns> const& sub_layers) {
  std::vector<Expected<TrackerNeed>> needs(sub_layers.size(), TrackerNeed{});
  for_all(settings.parallel, needs.size(), [&](std::size_t i) {
    auto const& runs = sub_layers[i];
    auto const& own = runs.t3_mca;
    TrackerNeed need{runs.model,
                     runs.tensor_parallel,
                     runs.layer,
                     own.tracker_peak,
                     own.tracker_overflows,
                     own.tracker_most_in_set,
                     {own.tracker_overflows},
                     0};
    auto machine = settings.machine;
    auto const setup = fused_setup(runs.problem, runs.tensor_parallel, settings.options);
    if (!setup) {
      needs[i] = tl::make_unexpected(setup.error());
      return;
    }
    auto run = settings.options.run;
    run.arbitration = Arbitration::communication_aware;
    while (need.overflows_by_sets.back() > 0 && need.overflows_by_sets.size() < k_tracker_doublings) {
      machine.overlap->tracker_sets *= 2;
      auto const larger = run_gemm(machine, runs.problem, settings.options.kernel, setup->fused, false, run);
      if (!larger) {
        needs[i] = tl::make_unexpected(larger.error());
        return;
      }
      need.overflows_by_sets.push_back(larger->tracker_overflows);
    }
    if (need.overflows_by_sets.back() == 0) need.sets_needed = machine.overlap->tracker_sets;
    need.overflows_by_sets.resize(k_tracker_doublings, 0);
    needs[i] = std::move(need);
  });
  return collected(needs);
}

}  // namespace tessera::overlap

namespace tessera {

namespace {

/// "T-NLG has 4256 columns for 8 GPUs".
std::string widths(OverlapStudySettings const& settings) {
  std::string text;
  for (auto const& model : settings.models)
    text += fmt::format("{}{} has {} columns for {} GPUs", text.empty() ? "" : ", ", model.name, model.hidden,
                        fmt::join(model.tensor_parallel, " or "));
  return text;
}

/// Can one row of tiles, of some width that few_rows_kernel() tries, be shared by so many GPUs?
bool is_shared(TransformerModel const& model, int widest, int gpus) {
  if (model.heads > 0 && model.heads % gpus != 0) return false;
  for (auto width = widest; width >= 16; width /= 2)
    if ((model.hidden + width - 1) / width % gpus == 0) return true;
  return false;
}

/// The nearest degrees for the one model, within what --tp takes; empty if none works.
std::string degrees_that_work(OverlapStudySettings const& settings) {
  auto const& model = settings.models.front();
  auto const works = [&](int gpus) { return is_shared(model, settings.options.kernel.tile_n, gpus); };
  int fewer = model.tensor_parallel.front(), more = fewer;
  while (fewer >= 3 && !works(fewer)) --fewer;
  while (more <= 256 && !works(more)) ++more;
  std::vector<std::string> found;
  if (fewer >= 3) found.push_back(fmt::format("--tp {}", fewer));
  if (more <= 256) found.push_back(fmt::format("--tp {}", more));
  return found.empty() ? "" : fmt::format("{} works", fmt::join(found, " or "));
}

}  // namespace

Expected<std::vector<SplitPoint>> study_splits(OverlapStudySettings const& settings,
                                               std::vector<std::int64_t> const& rows,
                                               std::vector<int> const& splits) {
  using namespace overlap;
  auto const whole = generation(reporting(settings, "token generation"), rows);
  if (!whole) return tl::make_unexpected(whole.error());
  auto points = split_k(reporting(settings, "split-K"), *whole, splits);
  if (!points || !points->empty()) return points;
  Diagnostic d;
  d.code = whole->empty() ? "E0543" : "E0544";
  if (whole->empty()) {
    d.message = "no output of these models divides into equal whole tiles for its GPUs: " + widths(settings);
    if (settings.models.size() == 1) d.suggestion = degrees_that_work(settings);
  } else {
    d.message = "no depth of these models has two slices for each split";
    d.suggestion = "give fewer splits, or a smaller --tp";
  }
  return refuse(std::move(d));
}

}  // namespace tessera
