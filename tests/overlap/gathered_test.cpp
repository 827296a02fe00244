// SPDX-License-Identifier: Apache-2.0
// A GEMM whose input is gathered as it runs: order, bytes, agreement of the modes, and what is refused.
#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "overlap/study_parts.hpp"
#include "tessera/describe/dsl.hpp"
#include "tessera/measure/machine_json.hpp"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

double bytes_of(OverlapRun const& run, Traffic traffic) {
  return run.bytes[static_cast<std::size_t>(traffic)];
}

/// 8 panels for 4 GPUs, 4 columns of tiles: two waves of 16 SMs.
struct Small {
  MachineProfile machine = tessera::machine("t3").value();
  GemmProblem problem{2048, 512, 1024, true};
  GemmKernel kernel;
  int gpus = 4;
  Small() { machine.sms = 16; }

  std::vector<GatheredInput> inputs(Topology topology = Topology::ring) const {
    auto const pipeline = gathered_pipeline(problem, kernel, gpus);
    EXPECT_TRUE(pipeline.has_value());
    auto const inputs = configure_gathered(*pipeline, topology, kernel.raster);
    EXPECT_TRUE(inputs.has_value()) << to_text(inputs.error());
    return inputs.value_or(std::vector<GatheredInput>{});
  }
  OverlapRun run(OverlapOptions const& options = {}, Topology topology = Topology::ring) const {
    auto const run = run_gathered_gemm(machine, problem, kernel, inputs(topology), options);
    EXPECT_TRUE(run.has_value()) << to_text(run.error());
    return run.value_or(OverlapRun{});
  }
  OverlapRun alone() const {
    return run_gemm(machine, problem, kernel, {local_output(4, 8, kernel.raster)}, true).value();
  }
  double chunk() const { return static_cast<double>(problem.m * problem.k * 2) / gpus; }
};

constexpr Topology k_topologies[] = {Topology::ring, Topology::fully_connected};

std::vector<std::int64_t> rows_of(std::vector<std::int64_t> const& tiles, std::int64_t columns) {
  std::vector<std::int64_t> rows;
  for (auto const tile : tiles)
    if (rows.empty() || rows.back() != tile / columns) rows.push_back(tile / columns);
  return rows;
}

TEST(GatheredOrder, OwnRowsFirstThenAsTheyCome) {
  auto const ring = Small().inputs();
  ASSERT_EQ(ring.size(), 4U);
  EXPECT_THAT(ring[0].panels.order, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(ring[3].panels.order, ElementsAre(6, 7, 0, 1, 2, 3, 4, 5));
  EXPECT_THAT(rows_of(ring[3].tiles.order, 4), ElementsAre(6, 7, 0, 1, 2, 3, 4, 5));
  auto const direct = Small().inputs(Topology::fully_connected);
  EXPECT_THAT(direct[2].panels.order, ElementsAre(4, 5, 6, 0, 2, 7, 1, 3)) << "a panel of every peer at once";
  EXPECT_THAT(rows_of(direct[2].tiles.order, 4), ElementsAre(4, 5, 0, 2, 6, 1, 3, 7))
      << "what comes together is in raster order";
}

TEST(GatheredOrder, EveryTileOnceInEveryRaster) {
  for (auto const topology : k_topologies)
    for (auto const raster : {Raster::row, Raster::column, Raster::swizzle}) {
      Small small;
      small.kernel.raster = raster;
      for (auto const& input : small.inputs(topology)) {
        auto tiles = input.tiles.order;
        EXPECT_EQ(tiles.front() / 4 / 2, input.panels.gpu);
        std::sort(tiles.begin(), tiles.end());
        for (std::size_t i = 0; i < tiles.size(); ++i) EXPECT_EQ(tiles[i], static_cast<std::int64_t>(i));
      }
    }
}

TEST(Gathered, BytesAreThoseOfTheAlgorithm) {
  Small const small;
  auto const n = small.gpus;
  for (auto const topology : k_topologies)
    for (auto const arbitration : {Arbitration::round_robin, Arbitration::communication_aware}) {
      OverlapOptions options;
      options.arbitration = arbitration;
      auto const run = small.run(options, topology);
      auto const read = topology == Topology::ring ? n - 1.0 : 1.0;
      EXPECT_NEAR(run.link_bytes, (n - 1) * small.chunk(), 1);
      EXPECT_NEAR(bytes_of(run, Traffic::collective_read), read * small.chunk(), 1);
      EXPECT_NEAR(bytes_of(run, Traffic::collective_write), (n - 1) * small.chunk(), 1);
      EXPECT_NEAR(bytes_of(run, Traffic::gemm_write), 2048 * 512 * 2, 1);
    }
}

TEST(Gathered, OneGpuStandsForAllAndOneChannelForAll) {
  Small const small;
  for (auto const topology : k_topologies) {
    auto const one = small.run({}, topology);
    auto const end = static_cast<double>(one.end);
    OverlapOptions options;
    options.explicit_gpus = true;
    auto const gpus = small.run(options, topology);
    EXPECT_NEAR(static_cast<double>(gpus.end), end, 0.02 * end);
    EXPECT_NEAR(gpus.link_bytes, one.link_bytes, 1);
    EXPECT_NEAR(bytes_of(gpus, Traffic::collective_write), bytes_of(one, Traffic::collective_write), 1);
    options.explicit_gpus = false;
    options.all_channels = true;
    EXPECT_NEAR(static_cast<double>(small.run(options, topology).end), end, 0.02 * end);
  }
}

TEST(Gathered, NeverFasterThanItsLinksAndTheLastWave) {
  Small const small;
  auto const run = small.run();
  auto const links = (small.gpus - 1) * small.chunk() / small.machine.overlap->link_gbps;
  auto const tile = 2.0 * 256 * 128 * 1024 / small.machine.matrix_flops_per_ns();
  EXPECT_GT(static_cast<double>(run.end) / 1000, links + tile);
  EXPECT_EQ(run.end, run.gemm_end) << "nothing comes after the last tile";
  EXPECT_GT(run.end, small.alone().end);
}

TEST(Gathered, FasterLinksNeverSlowItDownAndEndAtTheGemm) {
  auto small = Small();
  auto before = std::numeric_limits<std::int64_t>::max();
  for (double const gbps : {10.0, 20.0, 37.5, 75.0, 150.0, 300.0}) {
    small.machine.overlap->link_gbps = gbps;
    auto const end = small.run().end;
    EXPECT_LE(end, before) << gbps;
    before = end;
  }
  // Own rows keep all SMs busy here until the others have come.
  small.gpus = 2;
  small.machine.overlap->link_gbps = 1e5;
  auto const alone = static_cast<double>(small.alone().end);
  EXPECT_NEAR(static_cast<double>(small.run().end), alone, 0.1 * alone);
}

TEST(Gathered, TheOrderOfArrivalIsWorthSomething) {
  Small const small;
  OverlapOptions options;
  options.explicit_gpus = true;
  auto inputs = small.inputs();
  auto const staggered = run_gathered_gemm(small.machine, small.problem, small.kernel, inputs, options);
  for (auto& input : inputs) input.tiles = local_output(4, 8, Raster::row);
  auto const plain = run_gathered_gemm(small.machine, small.problem, small.kernel, inputs, options);
  ASSERT_TRUE(staggered.has_value() && plain.has_value());
  EXPECT_GT(plain->end, staggered->end + staggered->end / 10) << "every GPU waits for the rows of GPU 0";
}

TEST(Gathered, TheSameTwice) {
  OverlapOptions options;
  options.arbitration = Arbitration::communication_aware;
  options.series_ps = 1'000'000;
  for (auto const topology : k_topologies)
    EXPECT_EQ(Small().run(options, topology), Small().run(options, topology));
}

TEST(Gathered, RowsThatDoNotDivideAreRefused) {
  Small small;
  small.gpus = 3;
  auto const refused = gathered_pipeline(small.problem, small.kernel, small.gpus);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(to_text(refused.error()),
            "error E0543: 8 rows of tiles do not make 3 equal chunks\n"
            "   hint: 1536 rows (tokens) do");
}

std::string refusal(std::int64_t rows_of_gemm, std::int64_t each, std::string const& kernel) {
  PipelineBuilder p("all_gather_gemm");
  auto [x, y, chunk] = p.dims("x", "y", "chunk");
  auto panels = p.stage("panels", {y = 8});
  auto gather = p.stage("gather", {chunk = 4});
  auto gemm = p.stage("gemm", {x = 4, y = rows_of_gemm});
  gather.kernel(kernel);
  p.depends(gather(chunk), panels(range(chunk * 2, chunk * 2 + 2))).on_complete(OnComplete::start_peer_copy);
  p.depends(gemm(x, y), gather(y / each));
  auto const pipeline = p.build();
  if (!pipeline) return to_text(pipeline.error());
  auto const inputs = configure_gathered(*pipeline, Topology::ring, Raster::row);
  return inputs ? "" : to_text(inputs.error());
}

TEST(Gathered, WhatDoesNotFitTheGatherIsRefused) {
  EXPECT_EQ(refusal(8, 2, "all_gather"), "");
  EXPECT_THAT(refusal(8, 4, "all_gather"),
              HasSubstr("error E0540: gemm(0, 2) waits for 1 chunk, and its rows are in chunk 1"));
  EXPECT_THAT(refusal(4, 1, "all_gather"),
              HasSubstr("\"gemm\" has no row of tiles for each of the 8 panels"));
  EXPECT_THAT(refusal(8, 2, "all_to_all"),
              HasSubstr("nothing in \"all_gather_gemm\" waits for an all_gather"));
}

TEST(Gathered, RunsThatCannotBeAreRefused) {
  Small const small;
  auto const code = [&](MachineProfile const& machine, std::vector<GatheredInput> const& inputs,
                        OverlapOptions const& options = {}) {
    auto const run = run_gathered_gemm(machine, small.problem, small.kernel, inputs, options);
    return run ? "" : to_text(run.error());
  };
  EXPECT_THAT(code(tessera::machine("a100").value(), small.inputs()), HasSubstr("E0541"));
  EXPECT_THAT(code(small.machine, {}), HasSubstr("E0544: no output is configured"));
  EXPECT_THAT(code(small.machine, {small.inputs().front()}), HasSubstr("E0544: an all-gather of 1 GPU"));
  auto inputs = small.inputs();
  inputs[1].panels.tiles = 9;
  EXPECT_THAT(code(small.machine, inputs),
              HasSubstr("E0544: GPU 1's input configuration is not one of 8 panels"));
  OverlapOptions options;
  options.lose_update = 3;
  EXPECT_THAT(code(small.machine, small.inputs(), options),
              HasSubstr("E0542: the simulated GPUs are stuck: GPU 0: "));
}

// Mega-GPT-2's OP on 8 GPUs, the paper's size: in chunks of 1/8 of A.
TEST(GatheredStudy, ASubLayersBytesAreThoseOfTheAlgorithms) {
  auto model = t3_models()[0];
  model.tensor_parallel = {8};
  OverlapStudySettings settings{machine("t3").value(), {model}, {}, false, {}};
  settings.options.kernel = default_gemm_kernel(settings.machine);
  auto const sub_layers = overlap::run_sub_layers(settings.machine, settings.models,
                                                  {SubLayer::output_projection}, settings.options, {});
  ASSERT_TRUE(sub_layers.has_value());
  std::vector<CollectiveWay> ways;
  std::copy_if(k_collective_ways.begin(), k_collective_ways.end(), std::back_inserter(ways),
               [](auto const& way) { return way.before; });
  auto const runs = overlap::fused_collectives(settings, *sub_layers, ways);
  ASSERT_TRUE(runs.has_value()) << to_text(runs.error());
  ASSERT_EQ(runs->size(), 3U) << "a ring, links of their own, and shared ones";
  constexpr double n = 8;
  for (auto const& r : *runs) {
    auto const chunk = r.array_bytes / n;
    EXPECT_EQ(r.array_bytes, 16384.0 * 3072 * 2);
    auto const read = r.links == Links::ring ? n - 1 : 1;
    EXPECT_NEAR(r.alone_link_bytes, (n - 1) * chunk, 1);
    auto const gemm = r.apart_bytes - (read + n - 1) * chunk;  // read and written alone
    EXPECT_GT(gemm, r.array_bytes) << "all of A";
    for (auto const* fused : {&r.t3, &r.t3_mca}) {
      EXPECT_NEAR(fused->link_bytes, (n - 1) * chunk, 1);
      EXPECT_NEAR(bytes_of(*fused, Traffic::collective_read), read * chunk, 1);
      EXPECT_NEAR(bytes_of(*fused, Traffic::collective_write), (n - 1) * chunk, 1);
      EXPECT_NEAR(bytes_of(*fused, Traffic::gemm_write), 16384.0 * 384 * 2, 1);
      EXPECT_NEAR(bytes_of(*fused, Traffic::gemm_read) + bytes_of(*fused, Traffic::gemm_write), gemm,
                  0.1 * gemm);
      EXPECT_GE(fused->end, std::max(r.gemm, r.alone) - r.alone / 50);
    }
  }
}

TEST(DirectAllGather, ReadsItsChunkOnceAndStoresItEverywhere) {
  auto const machine = tessera::machine("t3").value();
  CollectiveProblem problem;
  problem.collective = Collective::all_gather;
  problem.bytes = 64e6;
  for (int const gpus : {4, 8, 16}) {
    problem.gpus = gpus;
    auto const chunk = problem.bytes / gpus;
    auto const run = run_direct_collective(machine, problem).value();
    EXPECT_NEAR(run.link_bytes, (gpus - 1) * chunk, 1);
    EXPECT_NEAR(bytes_of(run, Traffic::collective_read), chunk, 1);
    EXPECT_NEAR(bytes_of(run, Traffic::collective_write), (gpus - 1) * chunk, 1);
    EXPECT_GT(static_cast<double>(run.end) / 1000, chunk / machine.overlap->link_gbps);
  }
  OverlapOptions options;
  problem.gpus = 4;
  problem.bytes = 6e6;
  auto const one = static_cast<double>(run_direct_collective(machine, problem).value().end);
  options.explicit_gpus = true;
  EXPECT_NEAR(static_cast<double>(run_direct_collective(machine, problem, options).value().end), one,
              0.02 * one);
}

}  // namespace
}  // namespace tessera
