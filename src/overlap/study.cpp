// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <numeric>

#include "overlap/limits.hpp"
#include "overlap/study_parts.hpp"

namespace tessera {
namespace overlap {
namespace {

/// E0215: features that cannot be dealt out to the GPUs. Configurations say their heads, and are refused by
/// who reads them.
Expected<void> check_shares(TransformerModel const& model, int gpus) {
  if (model.heads > 0 || model.hidden % gpus == 0) return {};
  auto const below = model.hidden / gpus * gpus, above = below + gpus;
  Diagnostic d;
  d.code = "E0215";
  d.message =
      fmt::format("{} features of {} cannot be divided among {} GPUs", model.hidden, model.name, gpus);
  d.suggestion =
      below > 0 ? fmt::format("{} and {} features can", below, above) : fmt::format("{} features can", above);
  return refuse(std::move(d));
}

}  // namespace

double bytes_of(OverlapRun const& run, Traffic traffic) {
  return run.bytes[static_cast<std::size_t>(traffic)];
}

void for_all(Parallel const& parallel, std::size_t count, std::function<void(std::size_t)> const& job) {
  if (parallel) return parallel(count, job);
  for (std::size_t i = 0; i < count; ++i) job(i);
}

Expected<std::vector<SubLayerRuns>> run_sub_layers(MachineProfile const& machine,
                                                   std::vector<TransformerModel> const& models,
                                                   std::vector<SubLayer> const& wanted,
                                                   SubLayerOptions const& options, Parallel const& parallel) {
  struct Group {
    TransformerModel const* model;
    int tensor_parallel;
  };
  std::vector<Group> groups;
  for (auto const& model : models)
    for (int const tp : model.tensor_parallel) groups.push_back({&model, tp});
  // What is refused by its sizes is refused before anything is simulated.
  if (machine.overlap) {
    if (auto const fits = check_kernel(machine, options.kernel); !fits)
      return tl::make_unexpected(fits.error());
    for (auto const& group : groups)
      for (auto const layer : wanted) {
        auto const problem = sub_layer_gemm(*group.model, group.tensor_parallel, layer);
        auto const pipeline = sub_layer_pipeline(problem, options.kernel, group.tensor_parallel);
        if (!pipeline) return tl::make_unexpected(pipeline.error());
      }
    for (auto const& group : groups)
      if (auto const whole = check_shares(*group.model, group.tensor_parallel); !whole)
        return tl::make_unexpected(whole.error());
  }
  std::vector<Expected<CollectiveRuns>> collectives(groups.size(), CollectiveRuns{});
  for_all(parallel, groups.size(), [&](std::size_t i) {
    collectives[i] = run_collectives(machine, *groups[i].model, groups[i].tensor_parallel, options);
  });
  auto const shared = collected(collectives);
  if (!shared) return tl::make_unexpected(shared.error());
  std::vector<Expected<SubLayerRuns>> runs(groups.size() * wanted.size(), SubLayerRuns{});
  for_all(parallel, runs.size(), [&](std::size_t i) {
    auto const& group = groups[i / wanted.size()];
    runs[i] = run_sub_layer(machine, *group.model, group.tensor_parallel, wanted[i % wanted.size()], options,
                            (*shared)[i / wanted.size()]);
  });
  return collected(runs);
}

std::size_t sub_layer_jobs(std::vector<TransformerModel> const& models, std::vector<SubLayer> const& wanted) {
  std::size_t groups = 0;
  for (auto const& model : models) groups += model.tensor_parallel.size();
  return groups * (1 + wanted.size());
}

OverlapStudySettings reporting(OverlapStudySettings settings, std::string const& what, std::size_t total) {
  if (!settings.progress) return settings;
  struct Count {
    std::mutex one_at_a_time;
    std::size_t done = 0;
  };
  settings.parallel = [inner = settings.parallel, progress = settings.progress, what, total,
                       shared = std::make_shared<Count>()](std::size_t count,
                                                           std::function<void(std::size_t)> const& job) {
    auto const all = total > 0 ? total : count;
    if (shared->done == 0) progress(what, 0, all);
    for_all(inner, count, [&](std::size_t i) {
      job(i);
      std::lock_guard const lock(shared->one_at_a_time);
      progress(what, ++shared->done, all);
    });
  };
  return settings;
}

namespace {

/// All, without those that gather whole panels of A if there are not as many for every GPU.
std::vector<CollectiveWay> ways_that_divide(std::vector<SubLayerRuns> const& sub_layers,
                                            GemmKernel const& kernel) {
  bool const divide = std::all_of(sub_layers.begin(), sub_layers.end(), [&](auto const& runs) {
    return (runs.problem.m + kernel.tile_m - 1) / kernel.tile_m % runs.tensor_parallel == 0;
  });
  std::vector<CollectiveWay> ways;
  std::copy_if(k_collective_ways.begin(), k_collective_ways.end(), std::back_inserter(ways),
               [&](auto const& way) { return divide || !way.before; });
  return ways;
}

}  // namespace
}  // namespace overlap

ModelClass class_of(SubLayerRuns const& runs) {
  return runs.tensor_parallel < 32   ? ModelClass::main
         : runs.tensor_parallel < 64 ? ModelClass::larger
                                     : ModelClass::future;
}

double moved_sequential(SubLayerRuns const& runs) {
  double sum = 0;
  for (auto const* run : {&runs.gemm, &runs.collectives.reduce_scatter, &runs.collectives.all_gather})
    sum = std::accumulate(run->bytes.begin(), run->bytes.end(), sum);
  return sum;
}

double moved_fused(SubLayerRuns const& runs) {
  auto const& gather = runs.collectives.all_gather.bytes;
  return std::accumulate(gather.begin(), gather.end(),
                         std::accumulate(runs.t3_mca.bytes.begin(), runs.t3_mca.bytes.end(), 0.0));
}

Expected<OverlapStudy> study_overlap(OverlapStudySettings const& settings) {
  using namespace overlap;
  OverlapStudy study;
  study.machine = settings.machine;
  study.models = settings.models;
  study.options = settings.options;
  Diagnostics failed;
  auto const keep = [&](auto& into, auto part) {
    if (part)
      into = std::move(*part);
    else
      failed.insert(failed.end(), part.error().begin(), part.error().end());
  };
  auto models = settings.models;
  models.insert(models.end(), settings.future.begin(), settings.future.end());
  auto const run = [&](char const* what, MachineProfile const& machine,
                       std::vector<TransformerModel> const& of, std::vector<SubLayer> const& layers) {
    auto const told = reporting(settings, what, sub_layer_jobs(of, layers));
    return run_sub_layers(machine, of, layers, settings.options, told.parallel);
  };
  keep(study.sub_layers, run("figures 4, 15, 16, 18 and 19", settings.machine, models,
                             {k_sub_layers.begin(), k_sub_layers.end()}));
  if (!failed.empty()) return tl::make_unexpected(failed);
  keep(study.controls, controls(reporting(settings, "controls"), study.sub_layers));
  // Section 7.5: twice the SMs, the same memory and links.
  auto twice = settings.machine;
  twice.sms *= 2;
  keep(study.twice_the_sms,
       run("figure 20", twice, settings.models, {SubLayer::output_projection, SubLayer::fc2}));
  keep(study.sm_splits, split_sms(reporting(settings, "figure 6")));
  keep(study.ring, ring_times(settings));
  keep(study.traffic, traffic_series(settings));
  study.end_to_end = end_to_end(study.sub_layers);
  keep(study.tracker, tracker_needs(reporting(settings, "Tracker"), study.sub_layers));
  if (settings.sweep) {
    std::vector<SubLayerRuns> shown;
    std::copy_if(study.sub_layers.begin(), study.sub_layers.end(), std::back_inserter(shown), is_main);
    if (shown.empty()) shown = study.sub_layers;
    keep(study.collectives, fused_collectives(reporting(settings, "collectives"), shown,
                                              ways_that_divide(shown, settings.options.kernel)));
    keep(study.nodes, node_rings(reporting(settings, "several nodes")));
    keep(study.generation, generation(reporting(settings, "token generation"), k_generation_rows));
    keep(study.splits, split_k(reporting(settings, "split-K"), study.generation, k_generation_splits));
    keep(study.precision, precisions(reporting(settings, "fp8"), shown));
    keep(study.agreement, agreement(reporting(settings, "agreement")));
    keep(study.sweep, sweep(reporting(settings, "sweep")));
  }
  if (!failed.empty()) return tl::make_unexpected(failed);
  return study;
}

}  // namespace tessera
