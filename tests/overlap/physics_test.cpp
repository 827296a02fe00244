// SPDX-License-Identifier: Apache-2.0
// Every physical parameter moves the results the way it must, and limits come out as on paper.
#include <gmock/gmock.h>

#include <cmath>

#include "tessera/measure/machine_json.hpp"
#include "tessera/overlap/sub_layer.hpp"

namespace tessera {
namespace {

/// 128 tiles on 16 SMs of the paper's GPU, with its share of links and memory.
struct Setting {
  MachineProfile machine = tessera::machine("t3").value();
  GemmProblem problem{4096, 1024, 512, true};
  SubLayerOptions options;
  Setting() {
    machine.sms = 16;
    machine.l2_mib = 3;
    machine.l2_gbps /= 5;
    machine.overlap->channels = 8;
    machine.overlap->link_gbps = 15;
  }
  OverlapRun gemm(bool cached = true) const {
    return run_gemm(machine, problem, options.kernel, {local_output(8, 16, options.kernel.raster)}, cached,
                    options.run)
        .value();
  }
  OverlapRun fused(Arbitration arbitration = Arbitration::round_robin) const {
    auto const pipeline = sub_layer_pipeline(problem, options.kernel, 4).value();
    auto run = options.run;
    run.arbitration = arbitration;
    return run_gemm(machine, problem, options.kernel,
                    configure(pipeline, Topology::ring, options.kernel.raster).value(), false, run)
        .value();
  }
};

double reads(OverlapRun const& run) { return run.bytes[static_cast<std::size_t>(Traffic::gemm_read)]; }

TEST(Physics, InfiniteMemoryLeavesWavesTimesSlices) {
  Setting s;
  s.machine.overlap->dram_clock_ghz = 100;
  s.machine.overlap->memory_request_ns = 1;
  s.machine.overlap->memory_return_ns = 0;
  s.machine.overlap->l2_hit_ns = 0;
  s.machine.overlap->l2_to_dram_ns = 0;
  s.machine.overlap->l2_misses = s.machine.overlap->l2_merges = s.machine.overlap->l2_to_dram_entries = 0;
  s.machine.overlap->sm_store_bytes_per_clock = 1e6;
  s.machine.l2_gbps = s.machine.sm_load_gbps = 1e6;
  s.machine.block_start_ns = 0;
  auto const slice = 2.0 * 256 * 128 * 32 / (1024 * 1.4 * 0.86);  // ns
  auto const expected = 128.0 / 16 * 512 / 32 * slice;
  EXPECT_NEAR(static_cast<double>(s.gemm(false).end) / 1000, expected, 0.01 * expected);
}

TEST(Physics, InfiniteComputeLeavesBytesOverBandwidth) {
  Setting s;
  s.machine.matrix_flops_per_clock_per_sm = 1e7;
  s.machine.block_start_ns = 0;
  auto const run = s.gemm(false);
  double bytes = 0;
  for (auto const b : run.bytes) bytes += b;
  auto const floor = bytes / 256;  // eight channels of 32 bytes a ns
  EXPECT_GT(static_cast<double>(run.end) / 1000, floor);
  EXPECT_LT(static_cast<double>(run.end) / 1000, 2.5 * floor);
}

TEST(Physics, L2InfiniteReadsOnceAndNoneReadsAll) {
  Setting s;
  s.machine.l2_mib = 1000;
  auto const compulsory = static_cast<double>((4096 + 1024) * 512 * 2);
  EXPECT_NEAR(reads(s.gemm()), compulsory, 1);
  s.machine.l2_mib = 1e-6;
  auto const run = s.gemm();
  EXPECT_GT(reads(run), 4 * compulsory) << "neighbours that ask while a slice is on its way still share it";
  EXPECT_LE(reads(run), 16 * 1024.0 * 4096 / 128 + 1024.0 * 512 * 2 * 16 + 4096.0 * 512 * 2 * 8);
}

TEST(Physics, MoreBandwidthIsNeverSlower) {
  auto const sequence = [](auto change) {
    std::int64_t before = INT64_MAX;
    for (double const factor : {1.0, 1.5, 2.0, 4.0}) {
      Setting s;
      change(s, factor);
      auto const end = s.gemm().end;
      EXPECT_LE(static_cast<double>(end), 1.005 * static_cast<double>(before)) << "factor " << factor;
      before = end;
    }
  };
  sequence([](Setting& s, double f) { s.machine.overlap->dram_clock_ghz *= f; });
  sequence([](Setting& s, double f) { s.machine.l2_mib *= f; });
  sequence([](Setting& s, double f) { s.machine.matrix_flops_per_clock_per_sm *= f; });
  // Once the GEMM is what takes time, faster links only make communication's bursts denser, which fill the
  // queues behind L2 a little longer.
  std::int64_t before = INT64_MAX;
  for (double const link : {7.5, 15.0, 30.0, 60.0}) {
    Setting s;
    s.machine.overlap->link_gbps = link;
    auto const end = s.fused().end;
    EXPECT_LT(static_cast<double>(end), 1.02 * static_cast<double>(before)) << link;
    before = end;
  }
}

TEST(Physics, InfiniteLinksLeaveTheGemm) {
  Setting s;
  s.machine.overlap->link_gbps = 1e5;
  s.machine.overlap->link_latency_ns = 0;
  auto const run = s.fused();
  EXPECT_LT(static_cast<double>(run.end), 1.03 * static_cast<double>(run.gemm_end));
}

TEST(Physics, EachParameterMovesTheFusedRunTheRightWay) {
  struct Change {
    char const* name;
    void (*worse)(Setting&);
  };
  Setting const base;
  auto const before = base.fused();
  for (auto const& [name, worse] : std::initializer_list<Change>{
           {"link bandwidth", [](Setting& s) { s.machine.overlap->link_gbps /= 2; }},
           {"link latency", [](Setting& s) { s.machine.overlap->link_latency_ns *= 40; }},
           {"memory clock", [](Setting& s) { s.machine.overlap->dram_clock_ghz /= 3; }},
           {"column time after op-and-store", [](Setting& s) { s.machine.overlap->ccdwl *= 8; }},
           {"row cycle", [](Setting& s) { s.machine.overlap->rc *= 6, s.machine.overlap->ras *= 6; }},
           {"path to memory", [](Setting& s) { s.machine.overlap->memory_request_ns *= 20; }},
           {"matrix rate", [](Setting& s) { s.machine.matrix_efficiency /= 2; }},
           {"clock of the SMs", [](Setting& s) { s.machine.clock_ghz /= 2; }},
           {"block start", [](Setting& s) { s.machine.block_start_ns *= 20; }},
           {"queue", [](Setting& s) { s.machine.overlap->queue_entries = 2; }},
           {"way from L2 to memory", [](Setting& s) { s.machine.overlap->l2_to_dram_ns *= 20; }},
       }) {
    Setting changed;
    worse(changed);
    auto const after = changed.fused();
    EXPECT_GT(after.end, before.end) << name;
  }
}

TEST(Physics, FullQueuesBehindL2HoldUpTheGemm) {
  auto const gemm_end = [](int entries, int misses) {
    Setting s;
    s.machine.overlap->l2_slices = 16;
    s.machine.overlap->l2_to_dram_entries = entries;
    s.machine.overlap->l2_misses = misses;
    return static_cast<double>(s.fused().gemm_end);
  };
  auto const free = gemm_end(0, 0);
  EXPECT_GT(gemm_end(8, 0), 1.02 * free) << "hits wait behind stores and misses";
  EXPECT_GT(gemm_end(0, 8), 1.02 * free) << "loads wait for each other";
  EXPECT_GT(gemm_end(1, 1), 1.02 * free) << "less than a line's sectors: slow, but no standstill";
}

TEST(Physics, BytesDoNotDependOnTimes) {
  Setting fast;
  Setting slow;
  slow.machine.overlap->link_gbps /= 3;
  slow.machine.overlap->dram_clock_ghz /= 2;
  auto const a = fast.fused();
  auto const b = slow.fused(Arbitration::communication_aware);
  for (auto const traffic : {Traffic::gemm_write, Traffic::collective_read, Traffic::collective_write})
    EXPECT_DOUBLE_EQ(a.bytes[static_cast<std::size_t>(traffic)], b.bytes[static_cast<std::size_t>(traffic)]);
}

TEST(Physics, ThePapersRatiosFollowForAnyNumberOfGpus) {
  Setting s;
  for (int const gpus : {4, 8, 16}) {
    auto const pipeline = sub_layer_pipeline(s.problem, s.options.kernel, gpus).value();
    auto const outputs = configure(pipeline, Topology::ring, s.options.kernel.raster).value();
    auto const fused = run_gemm(s.machine, s.problem, s.options.kernel, outputs, false, {}).value();
    CollectiveProblem problem;
    problem.gpus = gpus;
    problem.bytes = 4096.0 * 1024 * 2;
    auto const alone = run_collective(s.machine, problem).value();
    auto const gemm = s.gemm();
    auto const of = [](OverlapRun const& r, Traffic t) { return r.bytes[static_cast<std::size_t>(t)]; };
    EXPECT_NEAR(of(alone, Traffic::collective_read) / of(fused, Traffic::collective_read),
                (2.0 * gpus - 1) / (gpus - 2), 1e-9);
    EXPECT_NEAR((of(gemm, Traffic::gemm_write) + of(alone, Traffic::collective_write)) /
                    (of(fused, Traffic::gemm_write) + of(fused, Traffic::collective_write)),
                2.0 * gpus / (2 * gpus - 2), 1e-9);
  }
}

}  // namespace
}  // namespace tessera
