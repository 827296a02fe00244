// SPDX-License-Identifier: Apache-2.0
// A GEMM fused with its reduce-scatter: bytes, order, agreement of the modes, and faults that are found.
#include <gmock/gmock.h>

#include "tessera/measure/machine_json.hpp"
#include "tessera/overlap/sub_layer.hpp"

namespace tessera {
namespace {

MachineProfile t3() { return machine("t3").value(); }

double bytes_of(OverlapRun const& run, Traffic traffic) {
  return run.bytes[static_cast<std::size_t>(traffic)];
}

/// 64 tiles on 16 SMs, so that it has stages and stays quick.
struct Small {
  MachineProfile machine = t3();
  GemmProblem problem{2048, 1024, 256, true};
  GemmKernel kernel;
  int gpus = 4;
  Small() { machine.sms = 16; }

  std::vector<OutputConfiguration> outputs(Topology topology = Topology::ring) const {
    auto const pipeline = sub_layer_pipeline(problem, kernel, gpus);
    EXPECT_TRUE(pipeline.has_value());
    return configure(*pipeline, topology, kernel.raster).value();
  }
  OverlapRun run(OverlapOptions const& options = {}, Topology topology = Topology::ring) const {
    auto const run = run_gemm(machine, problem, kernel, outputs(topology), false, options);
    EXPECT_TRUE(run.has_value()) << to_text(run.error());
    return run.value_or(OverlapRun{});
  }
  double output() const { return static_cast<double>(problem.m * problem.n * 2); }
};

TEST(Fused, BytesAreThoseOfThePaper) {
  Small const small;
  auto const run = small.run();
  auto const chunk = small.output() / small.gpus;
  auto const n = small.gpus;
  EXPECT_NEAR(bytes_of(run, Traffic::gemm_write), (n - 1) * chunk, 1) << "the first chunk goes to the peer";
  EXPECT_NEAR(bytes_of(run, Traffic::collective_write), (n - 1) * chunk, 1);
  EXPECT_NEAR(bytes_of(run, Traffic::collective_read), (n - 2) * chunk, 1);
  EXPECT_NEAR(run.link_bytes, (n - 1) * chunk, 1);
}

TEST(Fused, DirectReduceScatterNeedsNoReads) {
  Small const small;
  auto const run = small.run({}, Topology::fully_connected);
  auto const chunk = small.output() / small.gpus;
  EXPECT_EQ(bytes_of(run, Traffic::collective_read), 0);
  EXPECT_NEAR(bytes_of(run, Traffic::gemm_write), chunk, 1);
  EXPECT_NEAR(bytes_of(run, Traffic::collective_write), (small.gpus - 1) * chunk, 1);
}

/// Every collective of a pipeline like the small one's, simulated as one GPU and as all.
TEST(Fused, EveryCollectiveRunsAndMovesItsBytes) {
  Small const small;
  auto const chunk = small.output() / small.gpus;
  auto const n = small.gpus;
  struct Exchange {
    char const* kernel;
    Topology topology;
    double link_chunks, writes;  // sent, and written by incoming traffic, by one GPU
  };
  for (auto const& [kernel, topology, link_chunks, writes] : std::initializer_list<Exchange>{
           {"reduce_scatter", Topology::ring, n - 1.0, n - 1.0},
           {"reduce_scatter", Topology::fully_connected, n - 1.0, n - 1.0},
           {"all_reduce", Topology::ring, 2.0 * (n - 1), 2.0 * (n - 1)},
           {"all_reduce", Topology::fully_connected, 2.0 * (n - 1), 2.0 * (n - 1)},
           {"all_gather", Topology::ring, n - 1.0, n - 1.0},
           {"all_gather", Topology::fully_connected, n - 1.0, n - 1.0},
           {"all_to_all", Topology::fully_connected, n - 1.0, n - 1.0}}) {
    auto pipeline = sub_layer_pipeline(small.problem, small.kernel, n).value();
    pipeline.stages[1].kernel = kernel;
    if (kernel == std::string("all_gather") || kernel == std::string("all_to_all"))
      pipeline.dependences[0].on_complete = OnComplete::start_peer_copy;
    auto const outputs = configure(pipeline, topology, Raster::row);
    ASSERT_TRUE(outputs.has_value()) << to_text(outputs.error());
    OverlapOptions options;
    auto const one = run_gemm(small.machine, small.problem, small.kernel, *outputs, false, options);
    options.explicit_gpus = true;
    auto const all = run_gemm(small.machine, small.problem, small.kernel, *outputs, false, options);
    ASSERT_TRUE(one.has_value() && all.has_value()) << kernel << (one ? "" : to_text(one.error()));
    EXPECT_NEAR(one->link_bytes, link_chunks * chunk, 1) << kernel;
    EXPECT_NEAR(bytes_of(*one, Traffic::collective_write), writes * chunk, 1) << kernel;
    EXPECT_NEAR(all->link_bytes, one->link_bytes, 1) << kernel;
    EXPECT_NEAR(static_cast<double>(all->end), static_cast<double>(one->end),
                0.02 * static_cast<double>(one->end))
        << kernel;
  }
}

TEST(Fused, NeverFasterThanItsLinksOrItsGemm) {
  Small const small;
  auto const run = small.run();
  auto const links = (small.gpus - 1) * (small.output() / small.gpus / small.machine.overlap->link_gbps);
  EXPECT_GT(static_cast<double>(run.end), links * 1000);
  EXPECT_GE(run.end, run.gemm_end);
}

TEST(Fused, ExplicitGpusAgreeWithTheMirror) {
  Small const small;
  for (auto const topology : {Topology::ring, Topology::fully_connected}) {
    auto const mirrored = small.run({}, topology);
    OverlapOptions options;
    options.explicit_gpus = true;
    auto const all = small.run(options, topology);
    auto const end = static_cast<double>(mirrored.end);
    EXPECT_NEAR(static_cast<double>(all.end), end, 0.02 * end);
    EXPECT_NEAR(bytes_of(all, Traffic::collective_read), bytes_of(mirrored, Traffic::collective_read), 1);
    EXPECT_NEAR(bytes_of(all, Traffic::collective_write), bytes_of(mirrored, Traffic::collective_write), 1);
  }
}

TEST(Fused, ASlowGpuHoldsAllUp) {
  Small const small;
  OverlapOptions options;
  options.explicit_gpus = true;
  auto const equal = small.run(options).end;
  options.slow_gpu = 2;
  EXPECT_GT(small.run(options).end, equal + equal / 20) << "which a mirrored GPU would hide";
}

TEST(Fused, OneChannelStandsForAll) {
  Small const small;
  auto const one = small.run();
  OverlapOptions options;
  options.all_channels = true;
  auto const all = small.run(options);
  EXPECT_NEAR(static_cast<double>(all.end), static_cast<double>(one.end),
              0.02 * static_cast<double>(one.end));
  EXPECT_NEAR(bytes_of(all, Traffic::gemm_read), bytes_of(one, Traffic::gemm_read),
              0.05 * bytes_of(one, Traffic::gemm_read));
}

TEST(Fused, TheSameTwice) {
  Small const small;
  OverlapOptions options;
  options.arbitration = Arbitration::communication_aware;
  options.series_ps = 1'000'000;
  EXPECT_EQ(small.run(options), small.run(options));
}

TEST(Fused, ALostUpdateIsFoundAndNoTimeReported) {
  Small const small;
  OverlapOptions options;
  options.lose_update = 3;
  auto const refused = run_gemm(small.machine, small.problem, small.kernel, small.outputs(), false, options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(
      to_text(refused.error()),
      testing::StartsWith("error E0542: the simulated GPUs are stuck: GPU 0: wavefront 0 of tile 19 received "
                          "1 of 2 updates per element"));
}

}  // namespace
}  // namespace tessera
