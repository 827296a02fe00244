// SPDX-License-Identifier: Apache-2.0
// Settings of runs, each by the times that must change with it: bytes stay the same whether or not a run
// takes an arbitration, a threshold or a cost.
#include <gmock/gmock.h>

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "overlap/study_parts.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/overlap/sub_layer_timeline.hpp"

namespace tessera {
namespace {

using testing::Each;
using testing::Field;

/// A GEMM of 64 tiles on 16 SMs, fused with the collective of four GPUs. Communication never goes first for
/// having waited, so that thresholds are all that arbitration goes by.
struct Small {
  MachineProfile machine = tessera::machine("t3").value();
  GemmProblem problem{2048, 1024, 256, true};
  int gpus = 4;
  SubLayerOptions options;
  Small() {
    machine.sms = 16;
    machine.overlap->starvation_cycles = 0;
  }

  std::vector<OutputConfiguration> outputs() const { return fused_setup(problem, gpus, options)->fused; }
  OverlapRun run(std::vector<OutputConfiguration> const& outputs) const {
    auto const run = run_gemm(machine, problem, options.kernel, outputs, false, options.run);
    EXPECT_TRUE(run.has_value()) << to_text(run.error());
    return run.value_or(OverlapRun{});
  }
  OverlapRun run(Arbitration arbitration, int fixed_threshold = 0) const {
    auto changed = *this;
    changed.options.run.arbitration = arbitration;
    changed.options.run.fixed_threshold = fixed_threshold;
    return changed.run(outputs());
  }
};

/// One layer of a model as large as that GEMM.
OverlapStudySettings study_of_one_layer() {
  Small const small;
  OverlapStudySettings settings{small.machine, {{"small", 1024, 1, 2048, 1, {4}}}, {}, true, {}};
  settings.options = small.options;
  return settings;
}

std::vector<SubLayerRuns> sub_layers_of(OverlapStudySettings const& settings) {
  auto const runs = overlap::run_sub_layers(settings.machine, settings.models, {SubLayer::output_projection},
                                            settings.options, {});
  EXPECT_TRUE(runs.has_value()) << to_text(runs.error());
  return runs.value_or(std::vector<SubLayerRuns>{});
}

TEST(Mechanism, ArbitrationsAndThresholdsMakeRunsOfTheirOwn) {
  Small const small;
  auto const& h = *small.machine.overlap;
  auto const round_robin = small.run(Arbitration::round_robin).end;
  auto const compute_first = small.run(Arbitration::compute_first).end;
  auto const narrow = small.run(Arbitration::communication_aware, h.threshold_high);
  auto const wide = small.run(Arbitration::communication_aware, h.queue_entries);
  EXPECT_EQ(narrow.threshold, h.threshold_high) << "that the channel's arbiter goes by";
  EXPECT_EQ(wide.threshold, h.queue_entries);
  EXPECT_NE(round_robin, compute_first);
  EXPECT_NE(narrow.end, wide.end);
  EXPECT_EQ(wide.end, compute_first) << "a threshold of the whole queue is none";
}

TEST(Mechanism, ControlsRunComputeFirstAndEveryFixedThreshold) {
  auto const settings = study_of_one_layer();
  auto const& h = *settings.machine.overlap;
  auto const layers = sub_layers_of(settings);
  auto const controls = overlap::controls(settings, layers);
  ASSERT_TRUE(controls.has_value()) << to_text(controls.error());
  ASSERT_EQ(controls->size(), 1U);
  Small same;
  same.problem = layers.front().problem;
  auto const& control = controls->front();
  EXPECT_EQ(control.compute_first, same.run(Arbitration::compute_first).end);
  EXPECT_NE(control.compute_first, layers.front().t3.end) << "round robin";
  std::vector<std::int64_t> expected;
  for (int const threshold : {h.threshold_high, h.threshold_medium, h.threshold_low, h.queue_entries})
    expected.push_back(same.run(Arbitration::communication_aware, threshold).end);
  EXPECT_EQ(control.thresholds, expected);
  EXPECT_NE(expected.front(), expected.back()) << "or nobody could tell them apart";
}

TEST(Mechanism, TheThresholdOfT3McaEndsWithTheKernel) {
  // A short kernel and slow memory: most of communication comes after the kernel, and memory is what it waits
  // for. One request at a time, it would take twice as long.
  Small small;
  small.problem.k = 32;
  small.machine.overlap->dram_clock_ghz /= 4;
  auto const wide = small.run(Arbitration::communication_aware, small.machine.overlap->queue_entries);
  auto const narrow = small.run(Arbitration::communication_aware, 1);
  ASSERT_LT(narrow.gemm_end, narrow.end * 6 / 10);
  EXPECT_LT(narrow.gemm_end, wide.gemm_end) << "the kernel is what the threshold protects";
  EXPECT_LT(narrow.end, wide.end + wide.end / 10);
}

TEST(Mechanism, UpdatesInMemoryCostTheCollectiveMoreThanWrites) {
  auto machine = tessera::machine("t3").value();
  CollectiveProblem problem;
  problem.gpus = 4;
  problem.bytes = 4e6;
  auto const ends = [&] {
    problem.near_memory = true;
    auto const near = run_collective(machine, problem)->end;
    problem.near_memory = false;
    return std::pair{near, run_collective(machine, problem)->end};
  };
  auto const [near, plain] = ends();
  machine.overlap->ccdwl *= 100;
  auto const [slow_near, slow_plain] = ends();
  EXPECT_GT(slow_near, near + near / 2);
  EXPECT_EQ(slow_plain, plain) << "nothing is added up in memory";
}

TEST(Mechanism, UpdatesFromThisGpuAndFromAPeerBothCostMoreThanWrites) {
  for (bool const incoming : {false, true}) {
    Small small;
    auto outputs = small.outputs();
    for (auto& output : outputs) {
      output.local = incoming ? MemoryOperation::store : MemoryOperation::update;
      auto const operation = incoming ? MemoryOperation::update : MemoryOperation::store;
      for (auto& map : output.remote) map.operation = operation;
      for (auto& map : output.dma) map.operation = operation;
    }
    auto const end = small.run(outputs).end;
    small.machine.overlap->ccdwl *= 100;
    EXPECT_GT(small.run(outputs).end, end + end / 2) << (incoming ? "from a peer" : "from this GPU");
    small.options.run.near_memory = false;
    auto const written = small.run(outputs).end;
    EXPECT_LT(written, end + end / 10) << "the control writes instead";
  }
}

TEST(Mechanism, TwiceTheSmsOfFigure20AreTwiceTheSms) {
  auto settings = study_of_one_layer();
  settings.sweep = false;
  auto const study = study_overlap(settings);
  ASSERT_TRUE(study.has_value()) << to_text(study.error());
  ASSERT_EQ(study->twice_the_sms.size(), 2U) << "OP and FC-2";
  EXPECT_LT(study->twice_the_sms.back().gemm.end, study->sub_layers[1].gemm.end * 3 / 4);
  settings.machine.sms *= 2;
  EXPECT_EQ(study->twice_the_sms.front().gemm, sub_layers_of(settings).front().gemm);
}

TEST(Mechanism, Figure6RunsItsAllReduceOnItsPartOfTheSms) {
  auto settings = study_of_one_layer();
  settings.machine.sms = 80;
  settings.options.bytes_per_thread = 1;  // so that the link wants more than 8 SMs
  settings.models.front().tensor_parallel = {8};
  auto const splits = overlap::split_sms(settings);
  ASSERT_TRUE(splits.has_value()) << to_text(splits.error());
  ASSERT_EQ(splits->size(), 4U) << "OP and FC-2, on 8 SMs and on 16";
  for (auto const& split : *splits) {
    std::int64_t all_reduce = 0;
    for (auto const kind : {Collective::reduce_scatter, Collective::all_gather}) {
      CollectiveProblem problem;
      problem.collective = kind;
      problem.bytes = 2048.0 * 1024 * 2;
      problem.bytes_per_thread = settings.options.bytes_per_thread;
      problem.sms = split.collective_sms;
      all_reduce += run_collective(settings.machine, problem)->end;
    }
    EXPECT_EQ(split.all_reduce, all_reduce) << split.collective_sms;
    if (split.collective_sms == 8) {
      EXPECT_GT(split.all_reduce, split.all_reduce_whole * 11 / 10);
    }
  }
}

TEST(Mechanism, EveryFusedCollectiveRunsT3WithoutAThresholdAndT3McaWithOne) {
  auto const settings = study_of_one_layer();
  auto const runs = overlap::fused_collectives(settings, sub_layers_of(settings),
                                               {k_collective_ways.begin(), k_collective_ways.end()});
  ASSERT_TRUE(runs.has_value()) << to_text(runs.error());
  ASSERT_EQ(runs->size(), 9U) << "three on a ring, three direct ones on links of their own and shared ones";
  for (auto const& run : *runs) {
    EXPECT_EQ(run.t3.threshold, 0) << run.collective;
    EXPECT_GT(run.t3_mca.threshold, 0) << run.collective;
  }
}

TEST(Mechanism, ARingOverNodesHasTheLatencyOfItsLinks) {
  auto settings = study_of_one_layer();
  settings.models.front().tensor_parallel = {8};
  auto const points = overlap::node_rings(settings);
  ASSERT_TRUE(points.has_value()) << to_text(points.error());
  std::set<double> latencies;
  for (auto const& p : *points) {
    latencies.insert(p.link_latency_ns);
    auto const chunk = static_cast<double>(p.runs.problem.m * p.runs.problem.n * 2) / 8;
    auto const ring = 7 * (chunk / p.link_gbps + p.link_latency_ns);
    EXPECT_GT(static_cast<double>(p.runs.collectives.all_gather.end) / 1000, ring) << p.link_gbps;
  }
  EXPECT_THAT(latencies, testing::ElementsAre(settings.machine.overlap->link_latency_ns, 2000));
}

TEST(Mechanism, CopyCommandsAreAsLargeAsTheGranularitySays) {
  Small small;
  auto const fine = small.run(Arbitration::round_robin);
  small.options.granularity = 8;
  for (auto const& output : small.outputs()) EXPECT_THAT(output.dma, Each(Field(&DmaMap::granularity, 8)));
  EXPECT_NE(small.run(Arbitration::round_robin).end, fine.end);
  auto settings = study_of_one_layer();
  auto const by_one = sub_layers_of(settings).front();
  settings.options.granularity = 8;
  auto const by_eight = sub_layers_of(settings).front();
  EXPECT_EQ(by_eight.gemm, by_one.gemm) << "it copies nothing";
  EXPECT_NE(by_eight.t3.end, by_one.t3.end);
  auto const recorded = sub_layer_timeline(settings.machine, settings.models.front(), 4,
                                           SubLayer::output_projection, SubLayerRun::t3, settings.options);
  ASSERT_TRUE(recorded.has_value()) << to_text(recorded.error());
  EXPECT_EQ(recorded->end, by_eight.t3.end) << "recorded or not";
}

}  // namespace
}  // namespace tessera
