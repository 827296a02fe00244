// SPDX-License-Identifier: Apache-2.0
// Split-K: several work-groups for a tile, whose partial sums are updates or go through a second pass.
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "overlap/study_parts.hpp"
#include "tessera/measure/machine_json.hpp"

namespace tessera {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

double bytes_of(OverlapRun const& run, Traffic traffic) {
  return run.bytes[static_cast<std::size_t>(traffic)];
}

/// 8 tiles on 16 SMs for 4 GPUs, 32 slices deep.
struct Small {
  MachineProfile machine = tessera::machine("t3").value();
  GemmProblem problem{256, 1024, 1024, true};
  GemmKernel kernel;
  int gpus = 4;
  explicit Small(int splits) {
    machine.sms = 16;
    kernel.splits = splits;
  }

  std::vector<OutputConfiguration> outputs(Topology topology = Topology::ring) const {
    auto const pipeline = sub_layer_pipeline(problem, kernel, gpus);
    EXPECT_TRUE(pipeline.has_value());
    auto const outputs = configure(*pipeline, topology, kernel.raster, kernel.splits);
    EXPECT_TRUE(outputs.has_value()) << to_text(outputs.error());
    return outputs.value_or(std::vector<OutputConfiguration>{});
  }
  Expected<OverlapRun> run(std::vector<OutputConfiguration> const& outputs,
                           OverlapOptions const& options = {}) const {
    return run_gemm(machine, problem, kernel, outputs, false, options);
  }
  Expected<OverlapRun> alone() const {
    return run_gemm(machine, problem, kernel, {local_output(8, 1, kernel.raster)}, true);
  }
  double output() const { return static_cast<double>(problem.m * problem.n * 2); }
  double chunk() const { return output() / gpus; }
};

constexpr Topology k_topologies[] = {Topology::ring, Topology::fully_connected};

TEST(Splits, EveryTileIsSentOnceWhenAllItsPartsAreIn) {
  auto const ring = Small(3).outputs();
  EXPECT_TRUE(ring[0].remote.empty()) << "a store at the peer would send every part";
  EXPECT_THAT(std::vector(ring[0].updates.begin(), ring[0].updates.begin() + 2), Each(3)) << "its own parts";
  EXPECT_THAT(std::vector(ring[0].updates.begin() + 2, ring[0].updates.end()), Each(4)) << "and a peer's";
  ASSERT_EQ(ring[0].dma.size(), 3U);
  EXPECT_EQ(ring[0].dma.back().updates_per_element, 3) << "the first chunk";
  EXPECT_EQ(ring[0].dma.front().updates_per_element, 4);
  auto const direct = Small(3).outputs(Topology::fully_connected);
  EXPECT_THAT(std::vector(direct[0].updates.begin(), direct[0].updates.begin() + 2), Each(3 + 3));
  EXPECT_THAT(std::vector(direct[0].updates.begin() + 2, direct[0].updates.end()), Each(3));
  EXPECT_EQ(direct[0].dma.size(), 3U);
}

TEST(Splits, BytesAreThoseOfTheAlgorithm) {
  for (int const splits : {2, 3, 4, 32})
    for (auto const topology : k_topologies) {
      Small const small(splits);
      auto const run = small.run(small.outputs(topology));
      ASSERT_TRUE(run.has_value()) << to_text(run.error());
      auto const n = small.gpus;
      EXPECT_NEAR(bytes_of(*run, Traffic::gemm_write), splits * small.output(), 1) << "all parts stay here";
      EXPECT_NEAR(run->link_bytes, (n - 1) * small.chunk(), 1);
      EXPECT_NEAR(bytes_of(*run, Traffic::collective_read), (n - 1) * small.chunk(), 1);
      EXPECT_NEAR(bytes_of(*run, Traffic::collective_write), (n - 1) * small.chunk(), 1);
      EXPECT_EQ(run->second_pass, 0);
    }
}

TEST(Splits, AloneASecondPassWritesTheSums) {
  for (int const splits : {1, 2, 4}) {
    auto const alone = Small(splits).alone();
    ASSERT_TRUE(alone.has_value());
    auto const copies = splits == 1 ? 1 : splits + 1;
    EXPECT_NEAR(bytes_of(*alone, Traffic::gemm_write), copies * Small(splits).output(), 1);
    EXPECT_EQ(alone->second_pass > 0, splits > 1);
    EXPECT_LT(alone->second_pass, alone->end / 2);
  }
}

TEST(Splits, FillTheMachineWhereTilesAreFew) {
  auto const one = Small(1).alone()->end;
  EXPECT_LT(Small(2).alone()->end, one * 3 / 4) << "16 work-groups instead of 8 on 16 SMs";
  Small const whole(1), split(2);
  EXPECT_LT(split.run(split.outputs())->end, whole.run(whole.outputs())->end * 3 / 4);
}

TEST(Splits, OneGpuStandsForAllAndOneChannelForAll) {
  for (auto const topology : k_topologies) {
    Small const small(4);
    auto const end = static_cast<double>(small.run(small.outputs(topology))->end);
    OverlapOptions options;
    options.explicit_gpus = true;
    EXPECT_NEAR(static_cast<double>(small.run(small.outputs(topology), options)->end), end, 0.02 * end);
    options.explicit_gpus = false;
    options.all_channels = true;
    EXPECT_NEAR(static_cast<double>(small.run(small.outputs(topology), options)->end), end, 0.02 * end);
  }
}

TEST(Splits, FasterLinksNeverSlowItDown) {
  Small small(2);
  auto before = std::numeric_limits<std::int64_t>::max();
  for (double const gbps : {10.0, 20.0, 37.5, 75.0, 150.0}) {
    small.machine.overlap->link_gbps = gbps;
    auto const end = small.run(small.outputs())->end;
    EXPECT_LE(end, before) << gbps;
    before = end;
  }
}

TEST(Splits, UnevenPartsAndTheSameTwice) {
  Small small(3);
  small.problem.k = 7 * 32 - 8;
  EXPECT_EQ(small.run(small.outputs()), small.run(small.outputs()));
  EXPECT_TRUE(small.alone().has_value());
  EXPECT_EQ(small.alone(), small.alone());
}

TEST(Splits, WhatDoesNotFitIsRefused) {
  Small small(2);
  for (auto const collective : {Collective::all_reduce, Collective::all_to_all, Collective::all_gather}) {
    auto const pipeline = sub_layer_pipeline(small.problem, small.kernel, small.gpus, collective).value();
    auto const refused = configure(pipeline, Topology::fully_connected, Raster::row, 2);
    ASSERT_FALSE(refused.has_value());
    EXPECT_THAT(to_text(refused.error()), HasSubstr("error E0540: a depth in 2 splits before \"all_"));
  }
  auto const scatter = sub_layer_pipeline(small.problem, small.kernel, small.gpus).value();
  EXPECT_FALSE(configure(scatter, Topology::ring, Raster::row, 0).has_value());

  auto const outputs = small.outputs();
  small.kernel.splits = 33;
  EXPECT_THAT(to_text(small.run(outputs).error()), StartsWith("error E0544: 33 splits of 32 slices"));
  small.kernel.splits = 0;
  EXPECT_THAT(to_text(small.run(outputs).error()), StartsWith("error E0544: 0 splits of 32 slices"));
  small.kernel.splits = 3;
  EXPECT_THAT(to_text(small.run(outputs).error()), StartsWith("error E0542: the simulated GPUs are stuck"))
      << "configured for two";
  OverlapOptions options;
  options.lose_update = 3;
  EXPECT_THAT(to_text(Small(2).run(outputs, options).error()), StartsWith("error E0542"));
}

OverlapStudySettings settings_of(TransformerModel model) {
  OverlapStudySettings settings{machine("t3").value(), {std::move(model)}, {}, false, {}};
  settings.options.kernel = default_gemm_kernel(settings.machine);
  return settings;
}

// Mega-GPT-2 on 8 GPUs, the paper's size.
TEST(SplitStudy, TokenGenerationMovesItsBytesOnEveryWay) {
  auto model = t3_models()[0];
  model.tensor_parallel = {8};
  auto const points = study_splits(settings_of(model), {16, 256}, {2, 4});
  ASSERT_TRUE(points.has_value()) << to_text(points.error());
  ASSERT_EQ(points->size(), 8U);
  for (auto const& [kernel, whole, split] : *points) {
    auto const output = static_cast<double>(split.problem.m * split.problem.n * 2);
    EXPECT_EQ(whole.problem, split.problem);
    EXPECT_NEAR(bytes_of(split.gemm, Traffic::gemm_write), (kernel.splits + 1) * output, 1);
    for (auto const* fused : {&split.t3, &split.t3_mca}) {
      EXPECT_NEAR(bytes_of(*fused, Traffic::gemm_write), kernel.splits * output, 1);
      EXPECT_NEAR(bytes_of(*fused, Traffic::collective_read), output * 7 / 8, 1);
      EXPECT_NEAR(fused->link_bytes, output * 7 / 8, 1);
    }
  }
}

TEST(SplitStudy, ManyRowsKeepTheLargeTileAndAreSharedByRows) {
  auto model = t3_models()[1];
  model.tensor_parallel = {8};
  auto const points = study_splits(settings_of(model), {2048}, {2});
  ASSERT_TRUE(points.has_value()) << "its 34 columns of tiles do not divide, and 8 rows do";
  EXPECT_EQ(points->front().kernel.tile_n, 128);
}

TEST(SplitStudy, PointsThatDoNotExistAreLeftOutOrRefused) {
  TransformerModel const model{"small", 1024, 1, 1, 1, {8}};
  auto const some = study_splits(settings_of(model), {16}, {4});
  ASSERT_TRUE(some.has_value());
  ASSERT_EQ(some->size(), 1U) << "OP has 4 slices, FC-2 has 16";
  EXPECT_EQ(some->front().split.layer, SubLayer::fc2);
  auto const none = study_splits(settings_of(model), {16}, {16});
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(to_text(none.error()), StartsWith("error E0544: no depth of these models"));
  auto const uneven = study_splits(settings_of(t3_models()[1]), {16}, {2});
  ASSERT_FALSE(uneven.has_value());
  EXPECT_EQ(uneven.error().front().code, "E0543");
  auto settings = settings_of(model);
  settings.machine = machine("a100").value();
  EXPECT_EQ(study_splits(settings, {16}, {2}).error().front().code, "E0541");
}

}  // namespace
}  // namespace tessera
