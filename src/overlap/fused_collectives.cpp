// SPDX-License-Identifier: Apache-2.0
// GEMMs fused with each of the collectives that T3 supports, beside the same as two kernels.
#include <algorithm>
#include <functional>
#include <numeric>

#include "overlap/study_parts.hpp"

namespace tessera {
namespace {

double all_bytes(OverlapRun const& run) { return std::accumulate(run.bytes.begin(), run.bytes.end(), 0.0); }

}  // namespace

char const* to_text(Links links) {
  constexpr char const* names[] = {"ring", "own", "shared"};
  return names[static_cast<int>(links)];
}

double FusedCollective::fused_bytes() const { return all_bytes(t3_mca); }

namespace overlap {
namespace {

/// Tokens x hidden: of a sub-layer's output, and of what its GEMM of the other pass gathers.
double array_bytes(SubLayerRuns const& runs) {
  return static_cast<double>(runs.problem.m * runs.problem.n * 2);
}

/// The collective alone: a ring's runs are known, a direct one's have to be made.
Expected<OverlapRun> alone(OverlapStudySettings const& settings, MachineProfile const& machine,
                           SubLayerRuns const& runs, CollectiveWay const& way) {
  auto const& [scatter, near, gather] = runs.collectives;
  if (way.topology == Topology::fully_connected) {
    CollectiveProblem problem;
    problem.collective = way.collective;
    problem.gpus = runs.tensor_parallel;
    problem.bytes = array_bytes(runs);
    problem.bytes_per_thread = settings.options.bytes_per_thread;
    return run_direct_collective(machine, problem, settings.options.run);
  }
  if (way.collective == Collective::all_gather) return gather;
  auto both = scatter;
  if (way.collective != Collective::all_reduce) return both;
  both.end += gather.end;
  both.link_bytes += gather.link_bytes;
  for (std::size_t t = 0; t < k_traffics; ++t) both.bytes[t] += gather.bytes[t];
  return both;
}

/// The GEMM that a collective belongs to, and its run alone.
struct Gemm {
  GemmProblem problem;
  OverlapRun alone;
};

/// Of every sub-layer, if one of the ways needs them.
Expected<std::vector<Gemm>> gathered_gemms(OverlapStudySettings const& settings,
                                           std::vector<SubLayerRuns> const& sub_layers) {
  auto const& kernel = settings.options.kernel;
  std::vector<Expected<Gemm>> gemms(sub_layers.size(), Gemm{});
  for_all(settings.parallel, gemms.size(), [&](std::size_t i) {
    auto const problem = gathered_gemm(sub_layers[i].problem);
    auto const output = local_output((problem.n + kernel.tile_n - 1) / kernel.tile_n,
                                     (problem.m + kernel.tile_m - 1) / kernel.tile_m, kernel.raster);
    auto run = run_gemm(settings.machine, problem, kernel, {output}, true, settings.options.run);
    gemms[i] = run ? Expected<Gemm>(Gemm{problem, std::move(*run)}) : tl::make_unexpected(run.error());
  });
  return collected(gemms);
}

/// A GEMM's run with a collective, fused, under an arbitration.
using Fused = std::function<Expected<OverlapRun>(OverlapOptions const&)>;

Expected<Fused> fused(MachineProfile const& machine, GemmProblem const& problem, SubLayerRuns const& runs,
                      CollectiveWay const& way, SubLayerOptions const& options) {
  if (way.before) {
    auto const pipeline = gathered_pipeline(problem, options.kernel, runs.tensor_parallel);
    if (!pipeline) return tl::make_unexpected(pipeline.error());
    auto inputs = configure_gathered(*pipeline, way.topology, options.kernel.raster);
    if (!inputs) return tl::make_unexpected(inputs.error());
    return [&, inputs = std::move(*inputs)](OverlapOptions const& run) {
      return run_gathered_gemm(machine, problem, options.kernel, inputs, run);
    };
  }
  auto setup = fused_setup(problem, runs.tensor_parallel, options, way.collective, way.topology);
  if (!setup) return tl::make_unexpected(setup.error());
  return [&, outputs = std::move(setup->fused)](OverlapOptions const& run) {
    return run_gemm(machine, problem, options.kernel, outputs, false, run);
  };
}

Expected<FusedCollective> fuse(OverlapStudySettings const& settings, SubLayerRuns const& runs,
                               Gemm const& gemm, CollectiveWay const& way, Links links) {
  auto machine = settings.machine;
  if (links == Links::shared) machine.overlap->link_gbps /= runs.tensor_parallel - 1;
  FusedCollective out;
  out.model = runs.model;
  out.gpus = runs.tensor_parallel;
  out.layer = runs.layer;
  out.collective = way.name;
  out.links = links;
  out.array_bytes = array_bytes(runs);
  out.gemm = gemm.alone.end;
  auto const apart = alone(settings, machine, runs, way);
  if (!apart) return tl::make_unexpected(apart.error());
  out.alone = apart->end;
  out.alone_link_bytes = apart->link_bytes;
  out.apart_bytes = all_bytes(gemm.alone) + all_bytes(*apart);
  if (way.collective == Collective::reduce_scatter && way.topology == Topology::ring) {
    out.t3 = runs.t3;
    out.t3_mca = runs.t3_mca;
    return out;
  }
  auto const both = fused(machine, gemm.problem, runs, way, settings.options);
  if (!both) return tl::make_unexpected(both.error());
  auto run = settings.options.run;
  for (auto const arbitration : {Arbitration::round_robin, Arbitration::communication_aware}) {
    run.arbitration = arbitration;
    auto result = (*both)(run);
    if (!result) return tl::make_unexpected(result.error());
    (arbitration == Arbitration::round_robin ? out.t3 : out.t3_mca) = std::move(*result);
  }
  return out;
}

}  // namespace

Expected<std::vector<FusedCollective>> fused_collectives(OverlapStudySettings const& settings,
                                                         std::vector<SubLayerRuns> const& sub_layers,
                                                         std::vector<CollectiveWay> const& ways) {
  std::vector<Gemm> gathered(sub_layers.size());
  if (std::any_of(ways.begin(), ways.end(), [](auto const& way) { return way.before; })) {
    auto made = gathered_gemms(settings, sub_layers);
    if (!made) return tl::make_unexpected(made.error());
    gathered = std::move(*made);
  }
  struct Wanted {
    std::size_t layer;
    CollectiveWay const* way;
    Links links;
  };
  std::vector<Wanted> wanted;
  for (std::size_t layer = 0; layer < sub_layers.size(); ++layer)
    for (auto const& way : ways) {
      if (way.topology == Topology::ring)
        wanted.push_back({layer, &way, Links::ring});
      else
        for (auto const links : {Links::own, Links::shared}) wanted.push_back({layer, &way, links});
    }
  std::vector<Expected<FusedCollective>> out(wanted.size(), FusedCollective{});
  for_all(settings.parallel, out.size(), [&](std::size_t i) {
    auto const& [layer, way, links] = wanted[i];
    auto const& runs = sub_layers[layer];
    out[i] = fuse(settings, runs, way->before ? gathered[layer] : Gemm{runs.problem, runs.gemm}, *way, links);
  });
  return collected(out);
}

}  // namespace overlap

Expected<std::vector<FusedCollective>> study_collectives(OverlapStudySettings const& settings,
                                                         std::vector<CollectiveWay> const& ways) {
  using namespace overlap;
  std::vector<SubLayer> const layers(k_sub_layers.begin(), k_sub_layers.end());
  auto const told = reporting(settings, "sub-layers", sub_layer_jobs(settings.models, layers));
  auto const sub_layers =
      run_sub_layers(settings.machine, settings.models, layers, settings.options, told.parallel);
  if (!sub_layers) return tl::make_unexpected(sub_layers.error());
  return fused_collectives(reporting(settings, "collectives"), *sub_layers, ways);
}

}  // namespace tessera
