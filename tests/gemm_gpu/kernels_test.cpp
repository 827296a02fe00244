// SPDX-License-Identifier: Apache-2.0
// What compiled GEMMs say of themselves, and pairs of them; no GPU is asked.
#include <gtest/gtest.h>

#include <string>

#include "gemm_gpu/pair.hpp"

namespace tessera::gemm_sm90 {
namespace {

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
