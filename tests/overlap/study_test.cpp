// SPDX-License-Identifier: Apache-2.0
// The study of one small model: what its parts must agree on, and that nothing of it depends on threads.
#include "tessera/overlap/study.hpp"

#include <gmock/gmock.h>

#include <map>
#include <thread>

#include "tessera/measure/machine_json.hpp"

namespace tessera {
namespace {

OverlapStudySettings small() {
  OverlapStudySettings settings{machine("t3").value(), {{"small", 1024, 12, 2048, 1, {8}}}, {}, false, {}};
  settings.options.kernel = default_gemm_kernel(settings.machine);
  return settings;
}

TEST(SubLayer, SizesAreThoseOfThePaper) {
  auto const models = t3_models();
  ASSERT_EQ(models.size(), 5U);
  auto const t_nlg = models[1];
  EXPECT_EQ(sub_layer_gemm(t_nlg, 16, SubLayer::fc1), (GemmProblem{8192, 4256, 1064, false}));
  EXPECT_EQ(sub_layer_gemm(t_nlg, 8, SubLayer::output_projection), (GemmProblem{8192, 4256, 532, true}));
  EXPECT_EQ(sub_layer_gemm(models[2], 32, SubLayer::input_projection),
            (GemmProblem{2048, 12288, 1152, false}));
}

TEST(SubLayer, RefusesChunksThatAreNotWhole) {
  auto const refused = sub_layer_pipeline({4096, 4256, 532, true}, {}, 12);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(to_text(refused.error()),
            "error E0543: 34 x 16 tiles do not make 12 equal chunks of whole rows or parts of one\n"
            "   hint: they do on 8 or 16 GPUs");
  auto const smaller = sub_layer_pipeline({4096, 4096, 512, true}, {192, 128}, 8);
  ASSERT_FALSE(smaller.has_value());
  EXPECT_EQ(to_text(smaller.error()),
            "error E0543: 32 x 22 tiles do not make 8 equal chunks of whole rows or parts of one\n"
            "   hint: they do on 11 GPUs; tiles of 128 x 128 do on 8 "
            "(tessera sweep --set tile_m=128 --set tile_n=128)");
}

TEST(Study, ConfigurationsAreMadeOfTheirParts) {
  auto const study = study_overlap(small());
  ASSERT_TRUE(study.has_value()) << to_text(study.error());
  ASSERT_EQ(study->sub_layers.size(), 4U);
  for (auto const& runs : study->sub_layers) {
    EXPECT_LE(runs.ideal(), runs.sequential());
    EXPECT_LE(runs.ideal_near_memory(), runs.ideal());
    EXPECT_GE(runs.fused(), runs.collectives.all_gather.end * 2 - runs.collectives.all_gather.end / 10)
        << "the links carry as much in the fused reduce-scatter as in the all-gather";
    EXPECT_GE(runs.t3.end, runs.t3.gemm_end);
  }
  EXPECT_EQ(study->twice_the_sms.size(), 2U);
  EXPECT_EQ(study->sm_splits.size(), 4U);
  EXPECT_EQ(study->traffic.size(), 3U);
  for (auto const& split : study->sm_splits) EXPECT_GE(split.gemm, split.gemm_whole);
  for (auto const& point : study->ring)
    EXPECT_NEAR(point.simulated_us, point.closed_form_us, 0.06 * point.closed_form_us);
  for (auto const& whole : study->end_to_end) {
    EXPECT_LE(whole.low, whole.high);
    EXPECT_LE(whole.high, whole.sub_layers);
  }
  ASSERT_EQ(study->controls.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_LT(study->controls[i].fast_all_gather, study->sub_layers[i].collectives.all_gather.end);
    EXPECT_LE(study->controls[i].gemm_reads_past_l2, study->sub_layers[i].gemm.bytes[0] * 1.001)
        << "outputs in L2 take room from operands";
  }
  for (auto const& line : headlines(*study))
    EXPECT_EQ(line.verdict(), Reproduction::not_comparable) << "not the paper's models";
}

// Llama 3 8B's sizes: SwiGLU's two projections beside each other, four query heads to a kv head.
TEST(SubLayer, ReadsGatedMlpsAndGroupedHeads) {
  TransformerModel model{"llama", 4096, 32, 1024, 8, {8}, 14336, true, 32, 8, 128};
  EXPECT_EQ(sub_layer_gemm(model, 8, SubLayer::output_projection).k, 512);
  EXPECT_EQ(sub_layer_gemm(model, 8, SubLayer::fc2).k, 1792);
  EXPECT_EQ(sub_layer_gemm(model, 8, SubLayer::fc1).k, 2 * 1792);
  EXPECT_EQ(sub_layer_gemm(model, 8, SubLayer::input_projection).k, (4 + 2 * 1) * 128);
  EXPECT_EQ(sub_layer_gemm(model, 16, SubLayer::input_projection).k, (2 + 2 * 1) * 128)
      << "kv heads are repeated where there are more GPUs";
  model.gated = false;
  EXPECT_EQ(sub_layer_gemm(model, 8, SubLayer::fc1).k, 1792);
}

TEST(SubLayer, FutureModelsHaveTheParametersOfTheirNames) {
  auto const models = t3_future_models();
  ASSERT_EQ(models.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    auto const hidden = static_cast<double>(models[i].hidden);
    EXPECT_NEAR(12.0 * models[i].layers * hidden * hidden, i == 0 ? 1e12 : 1e13, i == 0 ? 2e10 : 2e11);
    EXPECT_EQ(models[i].tensor_parallel, std::vector<int>{64});
  }
}

TEST(Study, TellsHowFarItIs) {
  auto settings = small();
  std::map<std::string, std::vector<std::size_t>> told;  // by part: how far it was
  std::map<std::string, std::size_t> counts;
  settings.progress = [&](std::string const& what, std::size_t done, std::size_t count) {
    EXPECT_TRUE(told[what].empty() || counts[what] == count) << what << " has one count";
    told[what].push_back(done);
    counts[what] = count;
  };
  settings.parallel = [](std::size_t count, std::function<void(std::size_t)> const& job) {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < count; ++i) threads.emplace_back(job, i);
  };
  ASSERT_TRUE(study_overlap(settings).has_value());
  EXPECT_GE(told.size(), 4U);
  for (auto const& [what, steps] : told) {
    ASSERT_EQ(steps.size(), counts[what] + 1) << what;
    for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i], i) << what << " never goes back";
  }
}

TEST(Study, WhatItsSizesForbidIsRefusedBeforeAnythingRuns) {
  auto settings = small();
  int told = 0;
  settings.progress = [&](std::string const&, std::size_t, std::size_t) { ++told; };
  settings.models.front().hidden = 1 << 24;
  EXPECT_EQ(study_overlap(settings).error().front().code, "E0544");
  settings.models = small().models;
  settings.options.kernel.tile_m = settings.options.kernel.tile_n = 1024;
  EXPECT_EQ(study_overlap(settings).error().front().code, "E0546");
  EXPECT_EQ(told, 0);
}

TEST(Study, TheSameInAnyOrder) {
  auto settings = small();
  auto const forwards = study_overlap(settings).value();
  settings.parallel = [](std::size_t count, std::function<void(std::size_t)> const& job) {
    for (auto i = count; i-- > 0;) job(i);
  };
  auto const backwards = study_overlap(settings).value();
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(forwards.sub_layers[i].t3, backwards.sub_layers[i].t3);
    EXPECT_EQ(forwards.sub_layers[i].t3_mca, backwards.sub_layers[i].t3_mca);
  }
}

TEST(Study, RefusesAMachineWithoutLinksOnce) {
  auto settings = small();
  settings.machine = machine("a100").value();
  auto const refused = study_overlap(settings);
  ASSERT_FALSE(refused.has_value());
  ASSERT_EQ(refused.error().size(), 1U);
  EXPECT_EQ(refused.error().front().code, "E0541");
}

// Whether a run of the paper's size comes out as its closed forms say; one sub-layer, so that it stays quick.
TEST(Study, APapersSubLayerHasThePapersBytes) {
  auto const machine = tessera::machine("t3").value();
  auto const model = t3_models()[1];
  SubLayerOptions const options;
  auto const collectives = run_collectives(machine, model, 16, options).value();
  auto const runs =
      run_sub_layer(machine, model, 16, SubLayer::output_projection, options, collectives).value();
  auto const of = [](OverlapRun const& r, Traffic t) { return r.bytes[static_cast<std::size_t>(t)]; };
  EXPECT_NEAR(
      of(collectives.reduce_scatter, Traffic::collective_read) / of(runs.t3, Traffic::collective_read),
      31.0 / 14, 1e-6);
  EXPECT_NEAR(
      (of(runs.gemm, Traffic::gemm_write) + of(collectives.reduce_scatter, Traffic::collective_write)) /
          (of(runs.t3, Traffic::gemm_write) + of(runs.t3, Traffic::collective_write)),
      32.0 / 30, 1e-6);
  EXPECT_GE(runs.gemm.bytes[0], static_cast<double>((8192 + 4256) * 266 * 2) * 0.999)
      << "operands are read once at least";
}

}  // namespace
}  // namespace tessera
