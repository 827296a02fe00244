// SPDX-License-Identifier: Apache-2.0
// T3's study: every figure's data from one call, for any model on any machine profile that has links.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "extensions.hpp"
#include "headlines.hpp"
#include "sub_layer.hpp"

namespace tessera {

/// Runs job(0) ... job(count - 1), in any order or at once: the caller brings the threads.
using Parallel = std::function<void(std::size_t count, std::function<void(std::size_t)> const& job)>;

/// What is being run, and how many runs of how many are over, from 0 up by one. One call at a
/// time, from any thread.
using StudyProgress = std::function<void(std::string const& what, std::size_t done, std::size_t count)>;

struct OverlapStudySettings {
  MachineProfile machine;
  std::vector<TransformerModel> models;
  SubLayerOptions options;
  bool sweep = true;  ///< false: without the sweep of free parameters, which takes most of the time
  Parallel parallel;  ///< empty: one after the other
  std::vector<TransformerModel> future{};  ///< in figures 4, 15, 16, 18 and 19 only
  StudyProgress progress{};                ///< empty: nobody wants to know
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

/// A main model's sub-layer with one mechanism switched off, or another in its place: what headlines are held
/// to. Times in picoseconds.
struct ControlRuns {
  std::int64_t compute_first = 0;          ///< fused; the kernel's accesses first, no threshold
  std::vector<std::int64_t> thresholds{};  ///< fused; one of k_fixed_thresholds for all (with the sweep only)
  double gemm_reads_past_l2 = 0;           ///< bytes; the GEMM alone with its output past L2, as in T3
  std::int64_t fast_reduce_scatter = 0;    ///< alone, on links of twice the speed
  std::int64_t fast_all_gather = 0;
  std::int64_t endless_queue = 0;  ///< fused; no limit of what is on its way from L2 to memory
};
/// The thresholds that the paper chooses among, of a queue's entries: high, medium and low intensity, none.
constexpr int k_fixed_thresholds = 4;

struct OverlapStudy {
  MachineProfile machine;
  std::vector<TransformerModel> models;
  SubLayerOptions options;
  std::vector<SubLayerRuns> sub_layers;     ///< figures 15, 16, 18
  std::vector<SubLayerRuns> twice_the_sms;  ///< figure 20
  std::vector<ControlRuns> controls;        ///< of the main models' sub-layers, in the order of `sub_layers`
  std::vector<SmSplit> sm_splits;
  std::vector<RingPoint> ring;
  std::vector<TrafficSeries> traffic;
  std::vector<EndToEnd> end_to_end;
  std::vector<FusedCollective> collectives;
  std::vector<TrackerNeed> tracker;
  std::vector<NodeRing> nodes;
  std::vector<GenerationPoint> generation;
  std::vector<SplitPoint> splits;
  std::vector<PrecisionPoint> precision;
  std::vector<AgreementPoint> agreement;  ///< with the sweep only
  std::vector<SweepPoint> sweep;
};

/// Refused as a whole if a run is refused.
Expected<OverlapStudy> study_overlap(OverlapStudySettings const& settings);

/// Every sub-layer of the settings' models with each of these collectives; E0544 or E0543 as the runs.
Expected<std::vector<FusedCollective>> study_collectives(OverlapStudySettings const& settings,
                                                         std::vector<CollectiveWay> const& ways);

/// Token generation with k in so many splits each, beside the same in one. E0543 or E0544 if no model has
/// any; points whose splits have less than two slices of k are left out.
Expected<std::vector<SplitPoint>> study_splits(OverlapStudySettings const& settings,
                                               std::vector<std::int64_t> const& rows,
                                               std::vector<int> const& splits);
/// The rows and splits of the whole study.
inline std::vector<std::int64_t> const k_generation_rows{1, 16, 64, 256};
inline std::vector<int> const k_generation_splits{2, 4, 8};

/// How the paper groups its models, by the number of GPUs: its main figures have 8 and 16, section 6.4 has 32
/// ("larger"), figure 4 also has 64 (of one and ten trillion parameters).
enum class ModelClass : std::uint8_t { main, larger, future };
ModelClass class_of(SubLayerRuns const& runs);
inline bool is_main(SubLayerRuns const& runs) { return class_of(runs) == ModelClass::main; }

/// Bytes that one GPU's memory moves in a sub-layer, all-gather included.
double moved_sequential(SubLayerRuns const& runs);
double moved_fused(SubLayerRuns const& runs);

}  // namespace tessera
