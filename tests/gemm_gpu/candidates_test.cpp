// SPDX-License-Identifier: Apache-2.0
// The table of waves, and the pairs that are made from it; no GPU is asked.
#include "kernels/gemm_sm90/candidates.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace tessera::gemm_sm90 {
namespace {

constexpr int multiprocessors = 132;

Estimate of(char const* name, int rows, int columns, int depth) {
  Kernel const* const kernel = find_kernel(name);
  EXPECT_NE(kernel, nullptr) << name;
  return estimate(kernel->info, {rows, columns, depth}, multiprocessors);
}

TEST(Estimate, CountsTilesThatPadAClusterAndTheWavesTheyTake) {
  // 3 rows of 43 columns; clusters of two columns make 44 of them.
  Estimate const fits = of("256x144x64_1x2", 768, 6144, 12288);
  EXPECT_EQ(fits.tiles, 132);
  EXPECT_EQ(fits.waves, 1);
  EXPECT_NEAR(fits.useful, 768.0 * 6144 / (132 * 256 * 144), 1e-9);
  Estimate const spills = of("128x192x64_2x1", 768, 6144, 12288);
  EXPECT_EQ(spills.tiles, 192);
  EXPECT_EQ(spills.waves, 2);
  EXPECT_LT(fits.microseconds, spills.microseconds);
}

TEST(Estimate, KnowsWhatHalfABillionBytesOfWeightsCost) {
  // One token: whatever the tile, the weights have to come.
  EXPECT_GE(of("64x128x64_1x1", 1, 6144, 12288).microseconds, 2.0 * 6144 * 12288 / 4.16e6);
}

TEST(Estimate, KnowsThatSwappedTilesPadFewerTokens) {
  // Four tiles of 80 tokens, where 128 would be three, and 32 of 192 columns.
  Estimate const swapped = of("80x192x64_2x1_swapped", 300, 6144, 12288);
  EXPECT_EQ(swapped.tiles, 128);
  EXPECT_EQ(swapped.waves, 1);
  EXPECT_NEAR(swapped.useful, 300.0 * 6144 / (132 * 80 * 192), 1e-9);
  for (Kernel const* const kernel : kernels_for(ElementType::bf16, false))
    EXPECT_GE(estimate(kernel->info, {300, 6144, 12288}, multiprocessors).microseconds, swapped.microseconds)
        << kernel->info.name;
  // Nothing is gained where rows of 128 fit.
  EXPECT_GT(of("80x192x64_2x1_swapped", 256, 12288, 6144).microseconds,
            of("128x192x64_2x1", 256, 12288, 6144).microseconds);
}

TEST(Estimate, CountsATileTwiceWhereTwoBlocksShareIt) {
  Estimate const whole = of("80x192x64_2x1_swapped", 150, 6144, 12288);
  Estimate const shared = of("80x192x64_2x1_swapped_split2", 150, 6144, 12288);
  EXPECT_EQ(whole.tiles, 64);
  EXPECT_EQ(shared.tiles, 128);
  EXPECT_EQ(shared.waves, 1);
  EXPECT_NEAR(shared.useful, 2 * whole.useful, 1e-9);
  EXPECT_LT(shared.microseconds, whole.microseconds);
  // It only costs where the tiles are enough.
  EXPECT_GT(of("80x192x64_2x1_swapped_split2", 150, 12288, 6144).microseconds,
            of("80x192x64_2x1_swapped", 150, 12288, 6144).microseconds);
}

TEST(Kernels, OfSwappedTilesSayWhatTheyAre) {
  Kernel const* const kernel = find_kernel("80x192x64_2x1_swapped");
  ASSERT_NE(kernel, nullptr);
  KernelInfo const& info = kernel->info;
  EXPECT_TRUE(info.swapped);
  EXPECT_FALSE(info.gated);
  EXPECT_EQ(info.tile_rows, 80);
  EXPECT_EQ(info.tile_columns, 192);
  EXPECT_EQ(info.cluster_rows, 2);
  EXPECT_EQ(info.cluster_columns, 1);
  EXPECT_EQ(info.splits, 1);
  auto const tiles = tiles_of(info, {300, 6144, 12288});
  EXPECT_EQ(tiles.extent[1], 4);
  EXPECT_EQ(tiles.extent[0], 32);
  EXPECT_EQ(output_tile(info).rows, 80);
  EXPECT_EQ(output_tile(info).columns, 192);
  for (Kernel const& one : kernels()) {
    std::string const name = one.info.name;
    EXPECT_EQ(one.info.swapped, name.find("_swapped") != std::string::npos) << name;
    EXPECT_EQ(one.info.splits, name.find("_split2") != std::string::npos ? 2 : 1) << name;
    EXPECT_EQ(one.info.gated, name.find("_gated") != std::string::npos) << name;
    EXPECT_EQ(one.info.type == ElementType::fp16, name.find("_fp16") != std::string::npos) << name;
    EXPECT_EQ(
        name.find(std::to_string(one.info.tile_rows) + "x" + std::to_string(one.info.tile_columns) + "x" +
                  std::to_string(one.info.tile_depth) + "_" + std::to_string(one.info.cluster_rows) + "x" +
                  std::to_string(one.info.cluster_columns)),
        0u)
        << name;
    EXPECT_EQ(find_kernel(one.info.name), &one);
  }
  EXPECT_EQ(find_kernel("192x80x64_1x2_swapped"), nullptr);
}

TEST(Kernels, TakeAnyNumberOfTokensSwapped) {
  alignas(16) static unsigned char place[16];
  Kernel const* const kernel = find_kernel("96x192x64_2x1_swapped");
  Call call;
  for (int tokens = 1; tokens <= 300; ++tokens) {
    call.problem = {tokens, 6144, 1544, place, place, place};
    EXPECT_TRUE(kernel->can_implement(call)) << tokens;
  }
  // Rows of d that are no multiple of 16 bytes, a form that it has not.
  call.problem = {300, 6148, 1544, place, place, place};
  EXPECT_FALSE(kernel->can_implement(call));
  call.problem = {300, 6144, 1540, place, place, place};
  EXPECT_FALSE(kernel->can_implement(call));
  call.problem = {300, 6144, 1544, place, place, place, Activation::swiglu};
  EXPECT_FALSE(kernel->can_implement(call));
}

TEST(Kernels, WhoseBlocksMeetNeedAPlaceForIt) {
  alignas(16) static unsigned char place[16];
  Kernel const* const kernel = find_kernel("80x192x64_2x1_swapped_split2");
  ASSERT_NE(kernel, nullptr);
  Problem const problem{150, 6144, 12288, place, place, place};
  // Two rows of 32 tiles.
  SplitSizes const sizes = split_sizes(kernel->info, problem);
  EXPECT_EQ(sizes.arrivals, 64);
  EXPECT_EQ(sizes.sum_bytes, 64u * 2 * 80 * 192 * 4);
  EXPECT_EQ(split_sizes(find_kernel("80x192x64_2x1_swapped")->info, problem).sum_bytes, 0u);
  Call call;
  call.problem = problem;
  EXPECT_FALSE(kernel->can_implement(call));
  EXPECT_EQ(kernel->launch(call, nullptr), cudaErrorInvalidValue);
  call.split = {reinterpret_cast<float*>(place), reinterpret_cast<unsigned*>(place)};
  EXPECT_TRUE(kernel->can_implement(call));
}

TEST(Pairs, GiveEachHalfItsOwnPlaceToMeet) {
  Kernel const* const kernel = find_kernel("80x192x64_2x1_swapped_split2");
  PairPlan const plan{{kernel}, {kernel}, Mechanism::pdl_tiles, 1};
  alignas(16) static float sums[4];
  alignas(16) static unsigned long long counters[2];
  PairBuffers buffers;
  buffers.tokens = 150;
  buffers.model = 1200;  // 7 columns of tiles, 6 of the first GEMM
  buffers.hidden = 1150;
  buffers.sums = sums;
  buffers.counters = counters;
  constexpr long long semaphores = counters_for(2) + 6;
  EXPECT_EQ(counters_of(plan, buffers), semaphores + 6 + 7);
  EXPECT_EQ(sum_bytes_of(plan, buffers), (12u + 14u) * 2 * 80 * 192 * 4);
  PairCalls const calls = calls_of(plan, buffers);
  EXPECT_EQ(reinterpret_cast<unsigned long long*>(calls.first.split.arrivals) - counters, semaphores);
  EXPECT_EQ(calls.second.split.arrivals - calls.first.split.arrivals, 12);
  EXPECT_EQ(calls.second.split.sums - calls.first.split.sums, 12 * 2 * 80 * 192);
  buffers.sums = nullptr;
  EXPECT_FALSE(can_implement(plan, buffers));
}

TEST(HalfCandidates, HaveSwappedTilesWhereTokensPad) {
  auto const first_of = [](int tokens) {
    return std::string(
        half_candidates({tokens, 12288, 6144}, true, multiprocessors).front().kernel->info.name);
  };
  EXPECT_EQ(first_of(300), "80x192x64_2x1_swapped");
  EXPECT_EQ(first_of(150), "80x192x64_2x1_swapped_split2");
  EXPECT_EQ(first_of(220), "112x192x64_2x1_swapped_split2");
  EXPECT_EQ(first_of(512).find("_swapped"), std::string::npos);
}

TEST(HalfCandidates, PutTheShapeFirstThatFillsOneWave) {
  mlp::Shape const llama{512, 8192, 2752, mlp::Form::swiglu};
  auto const halves = half_candidates(llama, true, multiprocessors);
  ASSERT_FALSE(halves.empty());
  EXPECT_STREQ(halves.front().kernel->info.name, "128x168x64_2x1_gated");
  mlp::Shape const gpt3{768, 12288, 6144};
  auto const others = half_candidates(gpt3, true, multiprocessors);
  bool const has = std::any_of(others.begin(), others.end(), [](Half const& half) {
    return std::string(half.kernel->info.name) == "256x144x64_1x2";
  });
  EXPECT_TRUE(has);
}

TEST(Candidates, CanAllRun) {
  alignas(16) static unsigned char place[16];
  for (auto const form : {mlp::Form::gelu, mlp::Form::swiglu})
    for (auto const type : {ElementType::bf16, ElementType::fp16})
      for (int const tokens : {1, 100, 512, 4096}) {
        mlp::Shape const shape{tokens, 8192, 2752, form, type};
        auto const plans = candidates(shape, multiprocessors);
        EXPECT_GE(plans.size(), 50u);
        PairBuffers buffers;
        buffers.tokens = tokens;
        buffers.model = shape.model;
        buffers.hidden = shape.hidden;
        buffers.x = buffers.w1 = buffers.w2 = place;
        buffers.h = buffers.y = place;
        buffers.counters = reinterpret_cast<unsigned long long*>(place);
        buffers.stall = reinterpret_cast<StallRecord*>(place);
        buffers.sums = reinterpret_cast<float*>(place);
        buffers.form = form;
        buffers.type = type;
        for (PairPlan const& plan : plans)
          EXPECT_TRUE(can_implement(plan, buffers))
              << plan.first.kernel->info.name << " > " << plan.second.kernel->info.name;
        // Another type, or another form, is refused.
        buffers.type = type == ElementType::bf16 ? ElementType::fp16 : ElementType::bf16;
        EXPECT_FALSE(can_implement(plans.front(), buffers));
        buffers.type = type;
        buffers.form = form == mlp::Form::gelu ? mlp::Form::swiglu : mlp::Form::gelu;
        EXPECT_FALSE(can_implement(plans.front(), buffers));
      }
}

TEST(Candidates, AreCutFromTheEnd) {
  mlp::Shape const shape{1024, 12288, 6144};
  auto const all = candidates(shape, multiprocessors, 1000);
  auto const few = candidates(shape, multiprocessors, 10);
  ASSERT_EQ(few.size(), 10u);
  for (std::size_t i = 0; i < few.size(); ++i) {
    EXPECT_EQ(few[i].first.kernel, all[i].first.kernel);
    EXPECT_EQ(few[i].mechanism, all[i].mechanism);
  }
}

TEST(Calls, LeaveAHalfWithoutAKernelAlone) {
  PairPlan plan;
  plan.second.kernel = find_kernel("128x128x64_2x1");
  plan.mechanism = Mechanism::pdl_tiles;
  PairBuffers buffers;
  buffers.tokens = 64;
  buffers.model = buffers.hidden = 128;
  EXPECT_EQ(counters_of(plan, buffers), 0);
  EXPECT_FALSE(can_implement(plan, buffers));
  PairCalls const calls = calls_of(plan, buffers);
  EXPECT_EQ(calls.first.stage.posts, 0);
  EXPECT_FALSE(calls.second.stage.operand[0].has_set);
  EXPECT_FALSE(calls.second.programmatic);
}

}  // namespace
}  // namespace tessera::gemm_sm90
