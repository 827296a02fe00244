// SPDX-License-Identifier: Apache-2.0
// How products of few rows are cut. Needs no GPU.
#include <gtest/gtest.h>

#include "kernels/skinny_gemm_sm90/skinny_gemm.hpp"

namespace tessera::skinny_gemm {
namespace {

TEST(SkinnyGemmSizes, WhatHasNoKernel) {
  EXPECT_TRUE(supports({1, 8, 64}));
  EXPECT_TRUE(supports({k_most_rows, 128256, 8192}));
  EXPECT_TRUE(supports({1, 50257, 768, Result::fp32}));
  for (Problem const& p : {Problem{0, 64, 64},
                           {k_most_rows + 1, 64, 64},
                           {1, 0, 64},
                           {1, 50257, 768},
                           {1, 12, 64},
                           {1, 64, 0},
                           {1, 64, 96}}) {
    EXPECT_FALSE(supports(p)) << p.rows << " x " << p.columns << " x " << p.depth;
    EXPECT_TRUE(configs(p, 132).empty());
    // Addresses that would do: sizes are what is refused.
    auto* const somewhere = reinterpret_cast<void*>(0x10000);
    EXPECT_EQ(launch(p, {}, {somewhere, somewhere, somewhere}, nullptr), cudaErrorInvalidValue);
  }
}

TEST(SkinnyGemmSizes, CutsFitABlock) {
  for (int const rows : {1, 16, 17, 64})
    for (auto const& [columns, depth] : {std::pair{3072, 2048},
                                         {2048, 2048},
                                         {16384, 2048},
                                         {2048, 8192},
                                         {896, 4864},
                                         {128256, 2048},
                                         {8, 64}}) {
      Problem const p{rows, columns, depth};
      auto const all = configs(p, 132);
      ASSERT_FALSE(all.empty()) << rows << " x " << columns << " x " << depth;
      EXPECT_LE(all.size(), 63U) << "make() times each";
      for (auto const& c : all) {
        ASSERT_TRUE(allows(p, c));
        ASSERT_LE(layout_of(p, c).total, k_most_shared);
        // All of the depth and all columns belong to a block, and no block to nothing.
        ASSERT_GE(steps_of(p, c) * c.stage_depth * c.split * k_block, depth);
        ASSERT_GE(blocks_of(p, c) / c.split * c.columns, columns);
        ASSERT_LT((blocks_of(p, c) / c.split - 1) * c.columns, columns);
      }
    }
}

TEST(SkinnyGemmSizes, PartsOfSharedMemory) {
  for (int const rows : {1, 9, 64})
    for (int columns = 16; columns <= 128; columns += 16) {
      Problem const p{rows, 1024, 1024};
      for (int const split : {1, 4}) {
        Config const c{columns, split, 2, 2};
        auto const l = layout_of(p, c);
        EXPECT_GE(l.barriers, rows * (warpgroups_of(c) * 64 + 4) * 4);  // partial sums, where the ring was
        EXPECT_GE(l.scales, l.barriers + k_stage_barrier_bytes * c.stages + 8);
        EXPECT_GE(l.received, l.scales + 4 * rows);
        EXPECT_EQ(l.received % 16, 0);
        // Of the other blocks, each row that this one finishes.
        EXPECT_GE(l.total, l.received + (split - 1) * ((rows + split - 1) / split) * columns * 4);
      }
    }
}

/// A ring's stage that is waited for is never one that has been asked for again.
TEST(SkinnyGemmSizes, WhatIsInFlight) {
  for (int const rows : {1, 64})
    for (auto const& c : configs({rows, 16384, 8192}, 132)) {
      auto const l = layout_of({rows, 16384, 8192}, c);
      int const stages = in_flight_of(l, c);
      EXPECT_GE(stages, 1);
      EXPECT_LE(stages, c.stages);
      EXPECT_TRUE(stages == 1 || stages * l.weights <= 64 * 1024);
      EXPECT_TRUE(stages == c.stages || (stages + 1) * l.weights > 64 * 1024);
    }
}

TEST(SkinnyGemmSizes, OperandsThatGoTogether) {
  auto* const somewhere = reinterpret_cast<void*>(0x10000);
  auto* const numbers = static_cast<float*>(somewhere);
  auto* const odd = reinterpret_cast<float*>(0x10004);
  Operands const plain{somewhere, somewhere, somewhere};
  auto const with = [&](auto change) {
    Operands result = plain;
    change(result);
    return result;
  };
  auto const leaves = with([&](auto& o) { o.rounded = somewhere, o.squares = numbers; });
  auto const shifted = with([&](auto& o) { o.shift = numbers; });
  auto const normed = with([&](auto& o) { o.norm.squares = numbers; });
  for (auto const result : {Result::bf16, Result::fp32, Result::added, Result::gated, Result::gelu}) {
    Problem const p{1, 64, 128, result};
    EXPECT_TRUE(takes(p, plain));
    EXPECT_TRUE(takes(p, normed));
    EXPECT_EQ(takes(p, leaves), result == Result::added);
    EXPECT_EQ(takes(p, shifted), result != Result::gated);
  }
  EXPECT_TRUE(takes({1, 63, 128, Result::fp32}, plain));
  EXPECT_FALSE(takes({1, 63, 128, Result::fp32}, shifted));
  for (auto const& refused :
       {Operands{}, with([&](auto& o) { o.to = nullptr; }), with([&](auto& o) { o.input = odd; }),
        with([&](auto& o) { o.rounded = somewhere; }), with([&](auto& o) { o.squares = numbers; }),
        with([&](auto& o) { o.shift = odd; }), with([&](auto& o) { o.norm.squares = odd; })})
    EXPECT_FALSE(takes({1, 64, 128, Result::added}, refused));
}

/// Instructions read on behind the rows of an operand: what they read has to be a block's.
TEST(SkinnyGemmSizes, WhatIsReadIsABlocks) {
  for (int const rows : {1, 9, 16, 20, 40, 64})
    for (int columns = 16; columns <= 128; columns += 16)
      for (int const stage_depth : {2, 4}) {
        Problem const p{rows, 1024, 1024};
        Config const c{columns, 1, stage_depth, 2};
        if (!allows(p, c)) continue;
        auto const l = layout_of(p, c);
        int const last = (c.stages - 1) * l.stage;
        int const weights = last + (stage_depth - 1) * columns * 128 + warpgroups_of(c) * 64 * 128;
        int const input =
            last + l.weights + (stage_depth - 1) * l.rows * 128 + instruction_columns(rows) * 128;
        ASSERT_LE(std::max(weights, input), l.barriers) << rows << " rows, " << columns << " columns";
      }
}

/// Of Llama-3-8B's gate_up 64 and 128 columns leave a seventh of the last round's SMs idle, 112 next to none.
TEST(SkinnyGemmSizes, TilesThatFillTheSms) {
  constexpr int sms = 132;
  Problem const p{16, 28672, 4096, Result::gated};
  double best = 0;
  for (auto const& c : configs(p, sms)) {
    int const blocks = blocks_of(p, c), rounds = (blocks + sms - 1) / sms;
    best = std::max(best, static_cast<double>(blocks) / (rounds * sms));
  }
  EXPECT_GT(best, 0.96);
}

TEST(SkinnyGemmSizes, CutsThatNoKernelHas) {
  Problem const p{16, 1024, 1024};
  EXPECT_TRUE(allows(p, {64, 1, 2, 2}));
  for (Config const& c : {Config{0, 1, 2, 2},
                          {24, 1, 2, 2},
                          {144, 1, 2, 2},
                          {64, 3, 2, 2},
                          {64, 16, 2, 2},
                          {64, 1, 1, 2},
                          {64, 1, 2, 1},
                          {64, 1, 2, k_most_stages + 1},
                          {128, 1, 4, 8}})
    EXPECT_FALSE(allows(p, c)) << c.columns << " columns, split " << c.split << ", " << c.stages << " x "
                               << c.stage_depth;
}

}  // namespace
}  // namespace tessera::skinny_gemm
