// SPDX-License-Identifier: Apache-2.0
// What is refused by its sizes, and what the refusal names that would work.
#include "overlap/limits.hpp"

#include <gmock/gmock.h>

#include "tessera/measure/machine_json.hpp"
#include "tessera/overlap/run.hpp"
#include "tessera/overlap/sub_layer.hpp"

namespace tessera::overlap {
namespace {

using testing::HasSubstr;

GemmProblem const k_problem{4096, 1024, 512, true};

std::string text(Expected<void> const& checked) { return checked ? "" : to_text(checked.error()); }
std::string sizes(GemmProblem const& problem, GemmKernel const& kernel = {}, int gpus = 8) {
  return text(check_sizes(problem, kernel, gpus));
}

TEST(OverlapLimits, EverySizeHasItsRange) {
  EXPECT_EQ(sizes(k_problem), "");
  EXPECT_EQ(sizes({-1, 5, 5, true}),
            "error E0544: a GEMM of -1 x 5 x 5\n   hint: every size is from 1 to 268435456");
  EXPECT_EQ(sizes({1 << 20, 1 << 20, 64, true}),
            "error E0544: a GEMM of 1048576 x 1048576 x 64\n   hint: at most 68719476736 elements a matrix; "
            "that is "
            "at most 6912 tokens (rows of the output)");
  GemmKernel kernel;
  kernel.stages = 1;
  EXPECT_EQ(sizes(k_problem, kernel),
            "error E0544: a tile of 256 x 128 x 32 in 1 stages\n"
            "   hint: 2 to 64 stages: one slice is computed on while others are loaded");
  kernel = {};
  kernel.tile_n = 0;
  EXPECT_THAT(sizes(k_problem, kernel), HasSubstr("every side of a tile is at least 1"));
  kernel = {};
  kernel.wavefronts = 0;
  EXPECT_THAT(sizes(k_problem, kernel), HasSubstr("1 to 64 of both"));
}

/// What the hint says is accepted, and one more is not.
TEST(OverlapLimits, HintsNameTheLargestThatWorks) {
  EXPECT_EQ(sizes({8192, 1 << 24, 64, true}, {}, 8),
            "error E0544: a GEMM of 8192 x 16777216 x 64\n   hint: at most 68719476736 elements a "
            "matrix; that is at most 256 tokens (rows of the output)");
  EXPECT_EQ(sizes({4096, 1 << 24, 64, true}, {}, 8),
            "error E0544: 131072 x 16 tiles on 8 GPUs\n"
            "   hint: at most 1048576 tiles; that is at most 256 tokens (rows of the output)");
  EXPECT_EQ(sizes({2048, 1 << 24, 64, true}, {}, 8),
            "error E0544: 1048576 tiles that load and store 896 lines of 128 bytes each\n"
            "   hint: at most 200000000 lines in all; that is at most 256 tokens (rows of the output)");
  EXPECT_EQ(sizes({256, 1 << 24, 64, true}, {}, 8), "");
  EXPECT_EQ(sizes({2048, 1 << 24, 64, true}, {}, 32),
            "error E0544: 131072 x 8 tiles on 32 GPUs\n"
            "   hint: at most 524288 tiles; that is at most 256 tokens (rows of the output)");
  EXPECT_EQ(sizes({256, 1 << 24, 64, true}, {}, 32), "");
  EXPECT_EQ(sizes({256, 1 << 28, 64, true}, {}, 8),
            "error E0544: 2097152 x 1 tiles on 8 GPUs\n"
            "   hint: at most 1048576 tiles: here 134217728 columns of the output");
  EXPECT_EQ(sizes({256, 1 << 27, 64, true}, {}, 8),
            "error E0544: 2 slices of 1048577 panels\n"
            "   hint: take larger tiles, or fewer columns of the output");
  EXPECT_EQ(sizes({256, 1 << 27, 32, true}, {}, 8),
            "error E0544: 1048576 tiles that load and store 704 lines of 128 bytes each\n"
            "   hint: at most 200000000 lines in all: fewer columns of the output, or a smaller k");
  EXPECT_EQ(sizes({256, 1 << 25, 32, true}, {}, 8), "");
}

TEST(OverlapLimits, EveryLimitNamesTheTokensThatPassAllOfThem) {
  auto const most = [](std::int64_t n, std::int64_t k) {
    auto const said = sizes({1 << 28, n, k, true});
    auto const at = said.find("that is at most ");
    return at == std::string::npos ? 0 : std::stoll(said.substr(at + 16));
  };
  // Elements of the output, tiles, and slices of A's panels.
  for (auto const& [n, k] : {std::pair{4256, 2128}, {128, 64}, {1024, 65536}}) {
    auto const rows = most(n, k);
    ASSERT_GT(rows, 0) << n << " " << k;
    EXPECT_EQ(sizes({rows, n, k, true}), "") << n << " " << k;
    EXPECT_NE(sizes({rows + 1, n, k, true}), "") << n << " " << k;
  }
}

TEST(OverlapLimits, ARecordingsHintCanBeRecorded) {
  EXPECT_THAT(text(check_recording(2'000'000, 4096)), HasSubstr("hint: 4096 tokens on as many GPUs"));
  EXPECT_THAT(text(check_recording(2'000'000)), HasSubstr("hint: record a run of fewer tokens"));
  EXPECT_EQ(text(check_recording(1'000'000)), "");
  // What the command line says of T-NLG on 8 GPUs: 34 columns of tiles of 256 rows.
  EXPECT_EQ(text(check_recording(recorded_on_ring(34 * (536'576 / 256), 8, 8))), "");
  EXPECT_NE(text(check_recording(recorded_on_ring(34 * (536'576 / 256 + 8), 8, 8))), "");
}

TEST(OverlapLimits, AKernelHasToFitAnSm) {
  auto const t3 = machine("t3").value();
  EXPECT_EQ(text(check_kernel(t3, {})), "");
  EXPECT_EQ(text(check_kernel(t3, default_gemm_kernel(t3))), "");
  auto const h200 = machine("h200").value();
  EXPECT_EQ(text(check_kernel(h200, default_gemm_kernel(h200))), "");
  GemmKernel kernel;
  kernel.tile_m = kernel.tile_n = 1024;
  EXPECT_EQ(
      text(check_kernel(t3, kernel)),
      "error E0546: an SM of t3 holds 0 work-groups with tiles of 1024 x 1024 x 32 in 2 stages, and 1 is "
      "wanted: shared memory is too small\n   hint: tiles of 256 x 256 x 16 in 2 stages fit");
  kernel.tile_m = kernel.tile_n = 256;
  kernel.tile_k = 16;
  EXPECT_EQ(text(check_kernel(t3, kernel)), "") << "256 x 256 accumulators are all registers of an SM";
  kernel.tile_m = 512;
  EXPECT_THAT(text(check_kernel(t3, kernel)),
              HasSubstr("registers are too few\n   hint: tiles of 256 x 256"));
  // An accumulator takes one of 65536 registers, so that two work-groups of 256 x 128 fit, and no third.
  kernel = {};
  kernel.groups_per_sm = 2;
  EXPECT_EQ(text(check_kernel(t3, kernel)), "");
  kernel.groups_per_sm = 3;
  EXPECT_THAT(text(check_kernel(t3, kernel)), HasSubstr("hint: groups_per_sm of 2 fits"));
  kernel.tile_m = kernel.tile_n = kernel.tile_k = 1 << 30;
  kernel.stages = kernel.wavefronts = 64;
  EXPECT_THAT(text(check_kernel(t3, kernel)), HasSubstr("E0546"));
  EXPECT_THAT(to_text(run_gemm(t3, k_problem, {1024, 1024}, {local_output(1, 4, Raster::row)}, true).error()),
              HasSubstr("E0546"));
}

TEST(OverlapLimits, ConfigurationsAreThoseOfTheProblem) {
  EXPECT_EQ(text(check_outputs(k_problem, {}, {local_output(8, 16, Raster::row)})), "");
  EXPECT_EQ(text(check_outputs(k_problem, {}, {local_output(7, 16, Raster::row)})),
            "error E0544: GPU 0's output configuration is not one of 128 tiles\n"
            "   hint: configure() and local_output() make one for the same sizes and kernel");
  EXPECT_THAT(text(check_outputs(k_problem, {}, {})), HasSubstr("no output is configured"));
  EXPECT_THAT(to_text(sub_layer_pipeline(k_problem, {}, 0).error()), HasSubstr("2 to 1024 GPUs"));
}

TEST(OverlapLimits, ARecordingIsCountedAlikeWithAndWithoutItsConfiguration) {
  for (int const gpus : {2, 4, 8, 16})
    for (auto const raster : {Raster::row, Raster::column, Raster::swizzle}) {
      SubLayerOptions options;
      options.kernel.raster = raster;
      auto const setup = fused_setup(k_problem, gpus, options).value();
      EXPECT_EQ(recorded_on_ring(128, gpus, 8), recorded(setup.fused.front(), 8)) << gpus;
    }
}

}  // namespace
}  // namespace tessera::overlap
