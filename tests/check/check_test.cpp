// SPDX-License-Identifier: Apache-2.0
#include "tessera/check/check.hpp"

#include <gtest/gtest.h>

#include "check/small_pipelines.hpp"

namespace tessera {
namespace {

using namespace small;

TEST(Check, CountsTheRowsOfAnMlp) {
  auto const checked = check(mlp());
  ASSERT_TRUE(checked) << to_text(checked.error());
  EXPECT_EQ(checked->pipeline(), mlp());
  ASSERT_EQ(checked->facts().size(), 1u);
  EXPECT_EQ(checked->facts()[0], (DependenceFacts{48 * 4 * 24, 24, 24, 0}));
  EXPECT_TRUE(checked->reuses().empty());
  EXPECT_TRUE(checked->warnings().empty());
}

TEST(Check, OverlappingAccessesAreCountedOnce) {
  auto pipeline = mlp();
  pipeline.dependences[0].accesses.push_back({{upto(number(12), number(24)), upto(number(0), number(2))}});
  auto const checked = check(pipeline);
  ASSERT_TRUE(checked) << to_text(checked.error());
  // Rows 0 and 1 gain half of the other row; rows 2 and 3 gain half of both.
  EXPECT_EQ(checked->facts()[0], (DependenceFacts{48 * (2 * 36 + 2 * 48), 36, 48, 0}));
}

TEST(Check, FindsAllMistakesAtOnce) {
  auto pipeline = mlp();
  pipeline.stages[0].grid[0].extent = 20;
  pipeline.stages[1].splits = 0;
  pipeline.stages[1].resources.threads = 0;
  depend(pipeline, 0, 1, {{{one(x), one(y), one(y)}}}, 31);
  auto const checked = check(pipeline);
  ASSERT_FALSE(checked);
  std::vector<std::string> codes;
  for (auto const& finding : checked.error()) codes.push_back(finding.code);
  EXPECT_EQ(codes, (std::vector<std::string>{"E0101", "E0109", "E0105", "E0104", "E0103"}));
}

TEST(Check, PlacesFallBackToTheStageAndThePipeline) {
  auto pipeline = mlp();
  pipeline.dependences[0].where = {};
  pipeline.dependences[0].accesses[0].ranges.clear();
  EXPECT_EQ(check(pipeline).error()[0].where, (SourceLine{"mlp.cpp", 12}));
  pipeline.stages[1].where = {};
  EXPECT_EQ(check(pipeline).error()[0].where, (SourceLine{"mlp.cpp", 10}));
}

TEST(Check, ReaderOfAnOverwrittenBufferDependsOnTheLastWriter) {
  auto pipeline = mlp();
  pipeline.stages.push_back(stage("gemm3", 24, 4));
  pipeline.stages[2].output = "gemm1_out";
  pipeline.stages.push_back(stage("gemm4", 24, 4));
  depend(pipeline, 2, 1, {{{upto(number(0), number(48)), one(y)}}}, 24);
  depend(pipeline, 3, 0, {{{one(x), one(y)}}}, 25);
  EXPECT_EQ(findings(pipeline),
            "mlp.cpp:10: error E0110: operand a0 of gemm4 reads gemm1_out, which gemm3 writes, but no "
            "dependence says "
            "which tiles of gemm3 it needs\n"
            "   gemm4.a0 depends on gemm1, but gemm3 overwrites gemm1_out before gemm4 reads it\n"
            "   hint: add a dependence of gemm4 on gemm3 through a0, or name another buffer");
}

TEST(Check, OverwritingIsCoveredByWaitingForTheReaders) {
  auto pipeline = mlp();
  pipeline.stages.push_back(stage("gemm3", 24, 4));
  pipeline.stages[2].output = "gemm1_out";
  depend(pipeline, 2, 1, {{{upto(number(0), number(48)), one(y)}}}, 24);
  auto const checked = check(pipeline);
  ASSERT_TRUE(checked) << to_text(checked.error());
  ASSERT_EQ(checked->reuses().size(), 2u);
  EXPECT_EQ(checked->reuses()[0], (BufferReuse{2, 0, "gemm1_out", true, 0, 0}));
  EXPECT_EQ(checked->reuses()[1], (BufferReuse{2, 1, "gemm1_out", true, 0, 0}));
}

TEST(Check, OverwritingTooEarlyNamesThePair) {
  auto pipeline = mlp();
  pipeline.stages.push_back(stage("gemm3", 24, 4));
  pipeline.stages[2].output = "gemm1_out";
  depend(pipeline, 2, 1, {{{one(x), one(y)}}}, 24);
  auto const checked = check(pipeline);
  ASSERT_TRUE(checked) << to_text(checked.error());
  ASSERT_EQ(checked->reuses().size(), 2u);
  EXPECT_TRUE(checked->reuses()[0].covered) << "gemm2(x, y) waits for the whole row of gemm1";
  EXPECT_EQ(checked->reuses()[1], (BufferReuse{2, 1, "gemm1_out", false, 0, 1}))
      << "gemm2(1, 0) may still read gemm1(0, 0)";
}

TEST(Check, OtherTileSizesMeetEverywhere) {
  auto pipeline = mlp();
  pipeline.stages.push_back(stage("gemm3", 24, 4));
  pipeline.stages[2].output = "gemm1_out";
  pipeline.stages[2].store_bytes_per_block = 4096;
  depend(pipeline, 2, 1, {{{upto(number(0), number(48)), one(y)}}}, 24);
  auto const checked = check(pipeline);
  ASSERT_TRUE(checked) << to_text(checked.error());
  EXPECT_EQ(checked->reuses()[0], (BufferReuse{2, 0, "gemm1_out", false, 0, 24}));
}

TEST(Check, AnOutsideTensorThatIsOverwrittenIsReadByAllTiles) {
  auto pipeline = mlp();
  pipeline.stages[0].operands.push_back({"x", "residual", 0, 0});
  pipeline.stages[1].output = "residual";
  auto const checked = check(pipeline);
  ASSERT_TRUE(checked) << to_text(checked.error());
  ASSERT_EQ(checked->reuses().size(), 1u);
  EXPECT_EQ(checked->reuses()[0], (BufferReuse{1, 0, "residual", false, 0, 24}));
}

TEST(Check, MalformedExpressionsAreRefusedNotFollowed) {
  for (auto const& bad : {TileExpr{TileExpr::Op::add, 0, {x}}, TileExpr{TileExpr::Op::constant, 1, {x}},
                          TileExpr{TileExpr::Op::modulo, -2, {x}}, TileExpr::dimension(-1),
                          TileExpr::constant(INT64_MIN), x * INT64_MIN}) {
    auto pipeline = mlp();
    pipeline.dependences[0].accesses[0].ranges[1] = {bad, number(1), true};
    EXPECT_FALSE(check(pipeline));
  }
  auto deep = x;
  for (int i = 0; i < 1000; ++i) deep = TileExpr{TileExpr::Op::add, 0, {deep, y}};
  auto pipeline = mlp();
  pipeline.dependences[0].accesses[0].ranges[1] = {deep, deep, true};
  EXPECT_EQ(check(pipeline).error()[0].code, "E0111");
}

}  // namespace
}  // namespace tessera
