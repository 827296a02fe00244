// SPDX-License-Identifier: Apache-2.0
// GEMMs fused with each of the collectives that T3 supports, beside the same as two kernels.
#include <algorithm>
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

/// The collective alone: a ring's runs are known, a direct one's have to be made.
Expected<OverlapRun> alone(OverlapStudySettings const& settings, MachineProfile const& machine,
                           SubLayerRuns const& runs, CollectiveWay const& way) {
  auto const& [scatter, near, gather] = runs.collectives;
  if (way.topology == Topology::fully_connected) {
    CollectiveProblem problem;
    problem.collective = way.collective;
    problem.gpus = runs.tensor_parallel;
    problem.bytes = static_cast<double>(runs.problem.m * runs.problem.n * 2);
    problem.bytes_per_thread = settings.options.bytes_per_thread;
    return run_direct_collective(machine, problem, settings.options.run);
  }
  auto both = scatter;
  if (way.collective != Collective::all_reduce) return both;
  both.end += gather.end;
  both.link_bytes += gather.link_bytes;
  for (std::size_t t = 0; t < k_traffics; ++t) both.bytes[t] += gather.bytes[t];
  return both;
}

Expected<FusedCollective> fuse(OverlapStudySettings const& settings, SubLayerRuns const& runs,
                               CollectiveWay const& way, Links links) {
  auto machine = settings.machine;
  if (links == Links::shared) machine.overlap->link_gbps /= runs.tensor_parallel - 1;
  FusedCollective out;
  out.model = runs.model;
  out.gpus = runs.tensor_parallel;
  out.layer = runs.layer;
  out.collective = way.name;
  out.links = links;
  out.output_bytes = static_cast<double>(runs.problem.m * runs.problem.n * 2);
  out.gemm = runs.gemm.end;
  auto const apart = alone(settings, machine, runs, way);
  if (!apart) return tl::make_unexpected(apart.error());
  out.alone = apart->end;
  out.alone_link_bytes = apart->link_bytes;
  out.apart_bytes = all_bytes(runs.gemm) + all_bytes(*apart);
  if (way.collective == Collective::reduce_scatter && way.topology == Topology::ring) {
    out.t3 = runs.t3;
    out.t3_mca = runs.t3_mca;
    return out;
  }
  auto const& options = settings.options;
  auto const setup = fused_setup(runs.problem, runs.tensor_parallel, options, way.collective, way.topology);
  if (!setup) return tl::make_unexpected(setup.error());
  auto run = options.run;
  for (auto const arbitration : {Arbitration::round_robin, Arbitration::communication_aware}) {
    run.arbitration = arbitration;
    auto fused = run_gemm(machine, runs.problem, options.kernel, setup->fused, false, run);
    if (!fused) return tl::make_unexpected(fused.error());
    (arbitration == Arbitration::round_robin ? out.t3 : out.t3_mca) = std::move(*fused);
  }
  return out;
}

}  // namespace

Expected<std::vector<FusedCollective>> fused_collectives(OverlapStudySettings const& settings,
                                                         std::vector<SubLayerRuns> const& sub_layers,
                                                         std::vector<CollectiveWay> const& ways) {
  struct Wanted {
    SubLayerRuns const* runs;
    CollectiveWay const* way;
    Links links;
  };
  std::vector<Wanted> wanted;
  for (auto const& runs : sub_layers)
    for (auto const& way : ways) {
      if (way.topology == Topology::ring)
        wanted.push_back({&runs, &way, Links::ring});
      else
        for (auto const links : {Links::own, Links::shared}) wanted.push_back({&runs, &way, links});
    }
  std::vector<Expected<FusedCollective>> out(wanted.size(), FusedCollective{});
  for_all(settings.parallel, out.size(),
          [&](std::size_t i) { out[i] = fuse(settings, *wanted[i].runs, *wanted[i].way, wanted[i].links); });
  return collected(out);
}

}  // namespace overlap

Expected<std::vector<FusedCollective>> study_collectives(OverlapStudySettings const& settings,
                                                         std::vector<CollectiveWay> const& ways) {
  using namespace overlap;
  auto const sub_layers =
      run_sub_layers(settings.machine, settings.models, {k_sub_layers.begin(), k_sub_layers.end()},
                     settings.options, reporting(settings, "sub-layers").parallel);
  if (!sub_layers) return tl::make_unexpected(sub_layers.error());
  return fused_collectives(reporting(settings, "collectives"), *sub_layers, ways);
}

}  // namespace tessera
