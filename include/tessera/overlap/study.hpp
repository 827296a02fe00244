// SPDX-License-Identifier: Apache-2.0
// T3's study: every figure's data from one call, for any model on any machine profile that has links.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sub_layer.hpp"

namespace tessera {

/// Runs job(0) ... job(count - 1), in any order or at once: the caller brings the threads.
using Parallel = std::function<void(std::size_t count, std::function<void(std::size_t)> const& job)>;

struct OverlapStudySettings {
  MachineProfile machine;
  std::vector<TransformerModel> models;
  SubLayerOptions options;
  bool sweep = true;  ///< false: without the sweep of free parameters, which takes most of the time
  Parallel parallel;  ///< empty: one after the other
};

/// Figure 6: GEMM and all-reduce alone, each on a part of the SMs.
struct SmSplit {
  std::string model;
  SubLayer layer = SubLayer::output_projection;
  int gemm_sms = 0, collective_sms = 0;
  std::int64_t gemm = 0, all_reduce = 0;              ///< ps
  std::int64_t gemm_whole = 0, all_reduce_whole = 0;  ///< ps, on all SMs

  /// If the two overlapped and shared nothing but SMs.
  double potential() const {
    return static_cast<double>(gemm_whole + all_reduce_whole) /
           static_cast<double>(std::max(gemm, all_reduce));
  }
};

/// Figure 14: reduce-scatter against its closed form, (N - 1) (chunk / bandwidth + latency) and a last step
/// of two reads and a write at memory's peak.
struct RingPoint {
  double megabytes = 0;
  double simulated_us = 0;
  double closed_form_us = 0;
};

/// Figure 17: memory traffic over time.
struct TrafficSeries {
  std::string name;
  double bin_us = 0;
  OverlapRun run;
};

/// Figure 19: a whole model, if the sliced sub-layers take a share `f` of its time: 1 / (1 - f + f / s).
struct EndToEnd {
  std::string model;
  int tensor_parallel = 0;
  bool training = true;                                  ///< else a prompt: only the forward sub-layers
  double sub_layers = 0;                                 ///< s with T3-MCA, all sub-layers together
  double sub_layers_t3 = 0;                              ///< s with T3
  double communication_low = 0, communication_high = 0;  ///< assumed share of communication in the whole
  double share_low = 0, share_high = 0;                  ///< f that follows from it and the simulated times
  double low = 0, high = 0;                              ///< T3-MCA
  double t3_low = 0, t3_high = 0;
};

/// The same fused run as one GPU or all, with one memory channel or all. Times in picoseconds.
struct AgreementPoint {
  std::string mode;
  std::int64_t gemm = 0, t3 = 0, t3_mca = 0;
  double gemm_reads = 0;  ///< bytes of one GPU, in T3
  std::int64_t events = 0;
};

/// What changes with one parameter; speed-ups are geometric means over the main models' sub-layers.
struct SweepPoint {
  std::string parameter;
  std::string value;
  std::string base;  ///< the study's own value
  double ideal = 0, t3 = 0, t3_mca = 0;
  double ideal_most = 0, t3_most = 0, t3_mca_most = 0;
  double traffic_saved = 0;
  double gemm_reads_8 = 0, gemm_reads_16 = 0;  ///< times fewer; 0: no such cases
};

struct OverlapStudy {
  MachineProfile machine;
  std::vector<TransformerModel> models;
  SubLayerOptions options;
  std::vector<SubLayerRuns> sub_layers;     ///< figures 15, 16, 18
  std::vector<SubLayerRuns> twice_the_sms;  ///< figure 20
  std::vector<SmSplit> sm_splits;
  std::vector<RingPoint> ring;
  std::vector<TrafficSeries> traffic;
  std::vector<EndToEnd> end_to_end;
  std::vector<AgreementPoint> agreement;  ///< with the sweep only
  std::vector<SweepPoint> sweep;
};

/// Refused as a whole if a run is refused.
Expected<OverlapStudy> study_overlap(OverlapStudySettings const& settings);

/// The models with which the paper makes its main figures, 8 and 16 GPUs; the others are its "larger" ones.
bool is_main(SubLayerRuns const& runs);

/// Geometric mean and largest value.
struct Spread {
  double mean = 0;
  double most = 0;
  int count = 0;
};
Spread spread_of(std::vector<double> const& values);

/// One statement of the paper beside what came out here.
struct Headline {
  std::string name;
  double value = 0;
  double paper = 0;      ///< 0: not the paper's machine and models, so that there is nothing to compare with
  double tolerance = 0;  ///< around `paper`: within it counts as reproduced
  bool is_comparable() const { return paper > 0; }
  bool reproduced() const { return value >= paper - tolerance && value <= paper + tolerance; }
};
std::vector<Headline> headlines(OverlapStudy const& study);

/// Bytes that one GPU's memory moves in a sub-layer, all-gather included.
double moved_sequential(SubLayerRuns const& runs);
double moved_fused(SubLayerRuns const& runs);

}  // namespace tessera
