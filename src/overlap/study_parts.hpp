// SPDX-License-Identifier: Apache-2.0
// The parts of study_overlap().
#pragma once

#include <algorithm>

#include "tessera/overlap/study.hpp"

namespace tessera::overlap {

double bytes_of(OverlapRun const& run, Traffic traffic);

/// Runs every sub-layer `wanted` of the models; collectives once for each model and number of GPUs.
Expected<std::vector<SubLayerRuns>> run_sub_layers(MachineProfile const& machine,
                                                   std::vector<TransformerModel> const& models,
                                                   std::vector<SubLayer> const& wanted,
                                                   SubLayerOptions const& options, Parallel const& parallel);

/// Jobs of run_sub_layers().
std::size_t sub_layer_jobs(std::vector<TransformerModel> const& models, std::vector<SubLayer> const& wanted);

/// The same settings, whose parallel runs tell progress under this name, as one count of `total` jobs; 0:
/// there is one parallel run, which knows.
OverlapStudySettings reporting(OverlapStudySettings settings, std::string const& what, std::size_t total = 0);

Expected<std::vector<ControlRuns>> controls(OverlapStudySettings const& settings,
                                            std::vector<SubLayerRuns> const& sub_layers);
/// Sub-layers that have run already lend their GEMMs, rings and all-gathers.
Expected<std::vector<FusedCollective>> fused_collectives(OverlapStudySettings const& settings,
                                                         std::vector<SubLayerRuns> const& sub_layers,
                                                         std::vector<CollectiveWay> const& ways);
Expected<std::vector<TrackerNeed>> tracker_needs(OverlapStudySettings const& settings,
                                                 std::vector<SubLayerRuns> const& sub_layers);
Expected<std::vector<NodeRing>> node_rings(OverlapStudySettings const& settings);
/// For each of so many rows.
Expected<std::vector<GenerationPoint>> generation(OverlapStudySettings const& settings,
                                                  std::vector<std::int64_t> const& rows);
/// Of those points whose splits have two slices of k or more each.
Expected<std::vector<SplitPoint>> split_k(OverlapStudySettings const& settings,
                                          std::vector<GenerationPoint> const& points,
                                          std::vector<int> const& splits);
Expected<std::vector<PrecisionPoint>> precisions(OverlapStudySettings const& settings,
                                                 std::vector<SubLayerRuns> const& sub_layers);
Expected<std::vector<SmSplit>> split_sms(OverlapStudySettings const& settings);
Expected<std::vector<RingPoint>> ring_times(OverlapStudySettings const& settings);
Expected<std::vector<TrafficSeries>> traffic_series(OverlapStudySettings const& settings);
std::vector<EndToEnd> end_to_end(std::vector<SubLayerRuns> const& runs);
Expected<std::vector<AgreementPoint>> agreement(OverlapStudySettings const& settings);
Expected<std::vector<SweepPoint>> sweep(OverlapStudySettings const& settings);

void for_all(Parallel const& parallel, std::size_t count, std::function<void(std::size_t)> const& job);

/// The values, or every reason against them, each once.
template <class T>
Expected<std::vector<T>> collected(std::vector<Expected<T>>& parts) {
  std::vector<T> all;
  Diagnostics failed;
  for (auto& part : parts) {
    if (part)
      all.push_back(std::move(*part));
    else
      for (auto const& reason : part.error())
        if (std::find(failed.begin(), failed.end(), reason) == failed.end()) failed.push_back(reason);
  }
  if (!failed.empty()) return tl::make_unexpected(std::move(failed));
  return all;
}

}  // namespace tessera::overlap
