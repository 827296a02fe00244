// SPDX-License-Identifier: Apache-2.0
// One mistake in a stage, or two; the whole text that the user sees.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "check/small_pipelines.hpp"

namespace tessera {
namespace {

using namespace small;

TEST(RefusedStages, EmptyDimension) {
  auto p = mlp();
  p.stages[0].grid[1].extent = 0;
  EXPECT_EQ(findings(p),
            "mlp.cpp:11: error E0101: dimension y of gemm1 has 0 tiles\n"
            "   hint: every dimension has at least one tile; was a size divided by a larger tile?");
}

TEST(RefusedStages, NegativeAndHugeDimension) {
  auto p = mlp();
  p.stages[0].grid[1].extent = -3;
  p.stages[1].grid[0].extent = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(findings(p),
            "mlp.cpp:11: error E0101: dimension y of gemm1 has -3 tiles\n"
            "   hint: every dimension has at least one tile; was a size divided by a larger tile?\n"
            "mlp.cpp:12: error E0101: dimension x of gemm2 has 9223372036854775807 tiles; a stage can have "
            "at most 16777216\n"
            "   hint: use larger tiles");
}

TEST(RefusedStages, DimensionNamedAsAWordOfExpressions) {
  auto p = mlp();
  p.stages[1].grid[0].name = "mod";
  EXPECT_EQ(findings(p),
            "mlp.cpp:12: error E0102: \"mod\" cannot be the name of dimension 0 of gemm2\n"
            "   hint: all, clamp, floor, max, min and mod are words of the expression language");
}

TEST(RefusedStages, TooManyTiles) {
  auto p = mlp();
  p.stages[1].grid = {{"x", 5000}, {"y", 5000}};
  EXPECT_EQ(
      findings(p),
      "mlp.cpp:12: error E0101: the grid of gemm2 is 5000 x 5000; a stage can have at most 16777216 tiles\n"
      "   hint: use larger tiles");
}

TEST(RefusedStages, NoSplits) {
  auto p = mlp();
  p.stages[1].splits = 0;
  EXPECT_EQ(findings(p),
            "mlp.cpp:12: error E0101: gemm2 has 0 splits\n"
            "   hint: 1 means that a tile is computed by one block");
}

TEST(RefusedStages, TooManyBlocks) {
  auto p = mlp();
  p.stages[1].splits = 2000000000;
  EXPECT_EQ(findings(p),
            "mlp.cpp:12: error E0101: gemm2 has 192 tiles x 2000000000 splits = 384000000000 blocks; a "
            "launch can have at most 2147483647\n"
            "   hint: use larger tiles or fewer splits");
}

TEST(RefusedStages, NoGrid) {
  auto p = mlp();
  p.stages[1].grid.clear();
  EXPECT_EQ(findings(p),
            "mlp.cpp:12: error E0101: gemm2 has no grid\n"
            "   hint: give it at least one dimension");
}

TEST(RefusedStages, FiveDimensions) {
  auto p = mlp();
  for (auto const* name : {"z", "w", "v"}) p.stages[1].grid.push_back({name, 2});
  EXPECT_EQ(findings(p),
            "mlp.cpp:12: error E0101: the grid of gemm2 has 5 dimensions; at most 4 are possible\n"
            "   hint: merge dimensions that are always used together");
}

TEST(RefusedStages, NoStages) {
  auto p = mlp();
  p.stages.clear();
  p.dependences.clear();
  EXPECT_EQ(findings(p),
            "mlp.cpp:10: error E0101: pipeline \"mlp\" has no stages\n"
            "   hint: add at least one stage");
}

TEST(RefusedStages, TwoStagesOfOneName) {
  auto p = mlp();
  p.stages[1].name = "gemm1";
  EXPECT_EQ(findings(p),
            "mlp.cpp:12: error E0102: two stages are named gemm1\n"
            "   stage 0 and stage 1\n"
            "   hint: rename one of them");
}

TEST(RefusedStages, NamesThatAreNoIdentifiers) {
  auto p = mlp();
  p.stages[1].name = "2nd gemm";
  p.stages[0].name = "";
  EXPECT_EQ(findings(p),
            "mlp.cpp:11: error E0102: stage 0 has no name\n"
            "   hint: names become C++ identifiers: letters, digits and _, at most 64, a letter first, and "
            "no keyword\n"
            "mlp.cpp:12: error E0102: \"2nd gemm\" cannot be the name of stage 1\n"
            "   hint: names become C++ identifiers: letters, digits and _, at most 64, a letter first, and "
            "no keyword");
}

TEST(RefusedStages, KeywordAndTwoDimensionsOfOneName) {
  auto p = mlp();
  p.stages[1].name = "class";
  p.stages[0].grid[1].name = "x";
  EXPECT_EQ(findings(p),
            "mlp.cpp:11: error E0102: gemm1 has two dimensions named x\n"
            "   hint: rename one of them\n"
            "mlp.cpp:12: error E0102: \"class\" cannot be the name of stage 1\n"
            "   hint: names become C++ identifiers: letters, digits and _, at most 64, a letter first, and "
            "no keyword");
}

TEST(RefusedStages, NoBuffers) {
  auto p = mlp();
  p.stages[1].operands[0].buffer = "";
  p.stages[0].output = "";
  EXPECT_EQ(findings(p),
            "mlp.cpp:11: error E0106: gemm1 names no output buffer\n"
            "   hint: the stage's own name is the usual choice\n"
            "mlp.cpp:12: error E0106: operand a0 of gemm2 names no buffer\n"
            "   hint: give it the output buffer of its producer, or the name of an outside tensor");
}

TEST(RefusedStages, TwoOperandsOfOneName) {
  auto p = mlp();
  p.stages[1].operands.push_back(p.stages[1].operands[0]);
  EXPECT_EQ(findings(p),
            "mlp.cpp:12: error E0102: gemm2 has two operands named a0\n"
            "   hint: rename one of them");
}

TEST(RefusedStages, NonsenseCosts) {
  auto p = mlp();
  p.stages[0].flops_per_block = -1;
  p.stages[1].operands[0].unique_bytes = std::nan("");
  p.stages[1].resources.threads = 2048;
  p.stages[1].k_steps = 0;
  EXPECT_EQ(findings(p),
            "mlp.cpp:11: error E0109: flops_per_block of gemm1 is -1\n"
            "   hint: costs are finite and not negative; 0 means none\n"
            "mlp.cpp:12: error E0109: unique_bytes of operand a0 of gemm2 is nan\n"
            "   hint: costs are finite and not negative; 0 means none\n"
            "mlp.cpp:12: error E0109: threads of gemm2 is 2048\n"
            "   hint: it must be from 1 to 1024\n"
            "mlp.cpp:12: error E0109: k_steps of gemm2 is 0\n"
            "   hint: it must be from 1 to 1073741824");
}

TEST(RefusedStages, CostsThatNoBlockHas) {
  auto p = mlp();
  p.stages[0].flops_per_block = 1e300;
  p.stages[1].pipeline_stages = 16385;
  EXPECT_EQ(findings(p),
            "mlp.cpp:11: error E0109: flops_per_block of gemm1 is 1e+300\n"
            "   hint: a block has at most 1e+15 here\n"
            "mlp.cpp:12: error E0109: pipeline_stages of gemm2 is 16385\n"
            "   hint: it must be from 1 to 16384");
}

TEST(RefusedStages, TimesOfBlocksThatNobodyMeasured) {
  auto p = mlp();
  p.stages[0].block_time.alone_ns = 1e13;
  p.stages[1].block_time.share_ns = 500;
  EXPECT_EQ(findings(p),
            "mlp.cpp:11: error E0109: block_time.alone_ns of gemm1 is 10000000000000\n"
            "   hint: a block takes at most 1e+12 ns here\n"
            "mlp.cpp:12: error E0109: block_time of gemm2 does not say how long a block takes alone\n"
            "   hint: alone_ns is more than 0 where a block's time was measured");
}

}  // namespace
}  // namespace tessera
