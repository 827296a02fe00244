// SPDX-License-Identifier: Apache-2.0
// The study of one small model: what its parts must agree on, and that nothing of it depends on threads.
#include "tessera/overlap/study.hpp"

#include <gmock/gmock.h>

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
            "   hint: choose a tile shape that divides the output evenly among the GPUs");
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
  for (auto const& line : headlines(*study)) EXPECT_FALSE(line.is_comparable()) << "not the paper's models";
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
