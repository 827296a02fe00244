// SPDX-License-Identifier: Apache-2.0
// One mistake in a dependence; the whole text that the user sees.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "check/small_pipelines.hpp"

namespace tessera {
namespace {

using namespace small;

TEST(RefusedDependences, TilesOutsideTheGrid) {
  auto p = mlp();
  p.stages[0].grid[0].extent = 20;
  EXPECT_EQ(findings(p),
            "mlp.cpp:23: error E0103: dependence reads gemm1 tiles outside its grid\n"
            "   gemm2(x, y) needs gemm1(i, y) for 0 <= i < 24, but gemm1 has 20 tiles in x\n"
            "   first bad pair: gemm2(0, 0) -> gemm1(20, 0)\n"
            "   16 of the tiles asked for do not exist; gemm2 has 48 x 4 tiles, gemm1 has 20 x 4\n"
            "   hint: gemm1 has 20 tiles in x and the range ends at 24; were two tile sizes mixed up?");
}

TEST(RefusedDependences, UnknownStage) {
  auto p = mlp();
  p.dependences[0].producer = 7;
  EXPECT_EQ(findings(p),
            "mlp.cpp:23: error E0102: the producer of a dependence is stage 7, which does not exist\n"
            "   pipeline \"mlp\" has 2 stages");
}

TEST(RefusedDependences, UnknownOperand) {
  auto p = mlp();
  p.dependences[0].operand = "a9";
  EXPECT_EQ(findings(p),
            "mlp.cpp:23: error E0106: the dependence of gemm2 on gemm1 goes through operand \"a9\", which "
            "gemm2 does not have\n"
            "   operands of gemm2: a0\n"
            "   hint: did you mean \"a0\"?");
}

TEST(RefusedDependences, OperandIsNotTheProducersOutput) {
  auto p = mlp();
  p.stages[1].operands[0].buffer = "hidden";
  EXPECT_EQ(findings(p),
            "mlp.cpp:23: error E0106: operand a0 of gemm2 is not what gemm1 writes\n"
            "   gemm2.a0 reads buffer hidden; gemm1 writes buffer gemm1_out\n"
            "   hint: let the operand read gemm1_out, or depend on the stage that writes hidden");
}

TEST(RefusedDependences, PolicyThatDoesNotFitItsProducer) {
  auto p = mlp();
  p.dependences[0].policy = NamedPolicy{"halves", table_map({0, 1, 2})};
  EXPECT_EQ(findings(p),
            "mlp.cpp:23: error E0113: the policy halves for what gemm2 reads of gemm1 cannot be used: its "
            "table has 3 "
            "entries, and the producer 96 tiles\n"
            "   hint: give each tile of gemm1 a semaphore, counted from 0 without gaps");
  std::vector<std::int32_t> gap(96, 0);
  gap[5] = 2;
  p.dependences[0].policy = NamedPolicy{"", table_map(gap)};
  EXPECT_EQ(findings(p),
            "mlp.cpp:23: error E0113: the policy for what gemm2 reads of gemm1 cannot be used: no tile has "
            "semaphore "
            "1, though one has 2\n"
            "   hint: give each tile of gemm1 a semaphore, counted from 0 without gaps");
  gap[5] = -4;
  p.dependences[0].policy->map = table_map(gap);
  EXPECT_EQ(findings(p),
            "mlp.cpp:23: error E0113: the policy for what gemm2 reads of gemm1 cannot be used: tile 5 has "
            "semaphore "
            "-4; they count from 0 to at most 95\n"
            "   hint: give each tile of gemm1 a semaphore, counted from 0 without gaps");
  p.dependences[0].policy = product({{Grouping::block, 0}});
  EXPECT_EQ(
      findings(p),
      "mlp.cpp:23: error E0113: the policy for what gemm2 reads of gemm1 cannot be used: dimension 0 has a "
      "width of 0; 1 is the least\n"
      "   hint: give each tile of gemm1 a semaphore, counted from 0 without gaps");
}

TEST(RefusedDependences, ReadWithoutDependence) {
  auto p = mlp();
  p.dependences.clear();
  EXPECT_EQ(findings(p),
            "mlp.cpp:12: error E0110: operand a0 of gemm2 reads gemm1_out, which gemm1 writes, but no "
            "dependence says which tiles of gemm1 it needs\n"
            "   hint: add a dependence of gemm2 on gemm1 through a0, or name another buffer");
}

TEST(RefusedDependences, Circle) {
  auto p = mlp();
  depend(p, 0, 1, {{{one(x), one(y)}}}, 24);
  EXPECT_EQ(findings(p),
            "mlp.cpp:24: error E0104: 2 stages wait for each other in a circle\n"
            "   gemm1 reads gemm2 (mlp.cpp:24)\n"
            "   gemm2 reads gemm1 (mlp.cpp:23)\n"
            "   hint: remove one of these dependences");
}

TEST(RefusedDependences, LaunchedLater) {
  auto p = mlp();
  p.stages.push_back(stage("gemm3", 2, 2));
  depend(p, 0, 2, {{{one(number(0)), one(number(0))}}}, 24);
  EXPECT_EQ(findings(p),
            "mlp.cpp:24: error E0104: gemm1 reads gemm3, which is launched after it\n"
            "   launch order: gemm1 is stage 0, gemm3 is stage 2\n"
            "   hint: put gemm3 before gemm1");
}

TEST(RefusedDependences, DependsOnItself) {
  auto p = mlp();
  depend(p, 0, 0, {{{one(x), one(y)}}}, 24);
  EXPECT_EQ(findings(p),
            "mlp.cpp:24: error E0104: gemm1 depends on itself\n"
            "   hint: a stage reads only what other stages wrote; make it two stages");
}

TEST(RefusedDependences, TooFewCoordinates) {
  auto p = mlp();
  p.dependences[0].accesses[0].ranges.pop_back();
  EXPECT_EQ(findings(p),
            "mlp.cpp:23: error E0105: the dependence of gemm2 on gemm1 names tiles of gemm1 by 1 coordinate, "
            "but gemm1 has 2 dimensions\n"
            "   the grid of gemm1 is (x, y)\n"
            "   hint: give one coordinate or range for each dimension of the producer, in its order");
}

TEST(RefusedDependences, DimensionThatTheConsumerLacks) {
  auto p = mlp();
  p.dependences[0].accesses[0].ranges[1] = one(TileExpr::dimension(2));
  EXPECT_EQ(findings(p),
            "mlp.cpp:23: error E0105: in the dependence of gemm2 on gemm1, the expression for gemm1's y uses "
            "dimension 2 of gemm2, which has 2\n"
            "   hint: expressions use the consumer's own dimensions, counted from 0: x, y");
}

TEST(RefusedDependences, ValuesBeyond64Bits) {
  auto p = mlp();
  p.dependences[0].accesses[0].ranges[1] = one(x * std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(findings(p),
            "mlp.cpp:23: error E0111: in the dependence of gemm2 on gemm1, the expression for gemm1's y can "
            "reach a value beyond +-2^61\n"
            "   hint: expressions count tiles, not elements or bytes; is a factor too large?");
}

TEST(RefusedDependences, DivisionByZero) {
  auto p = mlp();
  p.dependences[0].accesses[0].ranges[1] = one({TileExpr::Op::floor_div, 0, {y}});
  EXPECT_EQ(findings(p),
            "mlp.cpp:23: error E0111: in the dependence of gemm2 on gemm1, the expression for gemm1's y "
            "divides by 0\n"
            "   hint: divisors are positive constants");
}

TEST(RefusedDependences, BackwardRange) {
  auto p = mlp();
  p.dependences[0].accesses[0].ranges[0] = upto(number(24), number(0));
  EXPECT_EQ(findings(p),
            "mlp.cpp:23: error E0107: the range of gemm1's x ends before it begins, for every tile of gemm2\n"
            "   from 24 up to 0\n"
            "   hint: swap begin and end; a range is half-open, its end is not read");
}

TEST(RefusedDependences, EmptyRange) {
  auto p = mlp();
  p.dependences[0].accesses[0].ranges[0] = upto(number(3), number(3));
  EXPECT_EQ(findings(p),
            "mlp.cpp:23: error E0107: gemm2 reads no tile of gemm1 here\n"
            "   gemm1(i, y) for 3 <= i < 3 is empty for every tile of gemm2\n"
            "   hint: a range is half-open: [begin, end) without end");
}

TEST(RefusedDependences, GivenTwice) {
  auto p = mlp();
  p.dependences.push_back(p.dependences[0]);
  EXPECT_EQ(findings(p),
            "mlp.cpp:23: error E0106: the dependence of gemm2 on gemm1 through a0 is given twice\n"
            "   hint: remove one of them");
}

TEST(RefusedDependences, NoTilesNamed) {
  auto p = mlp();
  p.dependences[0].accesses.clear();
  EXPECT_EQ(findings(p),
            "mlp.cpp:23: error E0107: the dependence of gemm2 on gemm1 names no tiles\n"
            "   hint: name the tiles that are read, or remove the dependence");
}

TEST(RefusedDependences, UnreadTiles) {
  auto p = mlp();
  p.dependences[0].accesses[0].ranges[0] = upto(number(0), number(22));
  EXPECT_EQ(findings(p),
            "mlp.cpp:11: warning E0108: 8 tiles of gemm1 are never read\n"
            "   first unread: gemm1(22, 0) (gemm1 has 24 x 4)\n"
            "   hint: do the ranges of its consumers end too early?");
}

TEST(RefusedDependences, HaloWithoutClamp) {
  auto p = mlp();
  p.dependences[0].accesses[0].ranges[1] = one(y + number(-1));
  EXPECT_EQ(findings(p),
            "mlp.cpp:23: error E0103: dependence reads gemm1 tiles outside its grid\n"
            "   gemm2(x, y) needs gemm1(i, y - 1) for 0 <= i < 24, but gemm1 has 4 tiles in y\n"
            "   first bad pair: gemm2(0, 0) -> gemm1(0, -1)\n"
            "   24 of the tiles asked for do not exist; gemm2 has 48 x 4 tiles, gemm1 has 24 x 4\n"
            "   hint: if tiles at the edge simply have fewer neighbours, clamp the range of y");
}

TEST(RefusedDependences, GridsThatDoNotFit) {
  auto p = mlp();
  p.dependences[0].accesses[0].ranges[1] = upto(y * 2, y * 2 + number(2));
  EXPECT_EQ(
      findings(p),
      "mlp.cpp:23: error E0103: dependence reads gemm1 tiles outside its grid\n"
      "   gemm2(x, y) needs gemm1(i, j) for 0 <= i < 24, 2*y <= j < 2*y + 2, but gemm1 has 4 tiles in y\n"
      "   first bad pair: gemm2(0, 2) -> gemm1(0, 4)\n"
      "   96 of the tiles asked for do not exist; gemm2 has 48 x 4 tiles, gemm1 has 24 x 4\n"
      "   hint: compare the grids of both stages in y; if tiles at the edge simply need fewer tiles, clamp "
      "the range");
}

}  // namespace
}  // namespace tessera
