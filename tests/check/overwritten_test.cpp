// SPDX-License-Identifier: Apache-2.0
// Reads of tiles that are overwritten meanwhile, and reads of nothing where others read something.
#include <gtest/gtest.h>

#include "check/small_pipelines.hpp"

namespace tessera {
namespace {

using namespace small;

/// first 8 x 4 writes c; second 8 x 4 reads `access` of it, and writes c as well.
Pipeline in_place(Access access) {
  Pipeline pipeline;
  pipeline.name = "chain";
  pipeline.where = {"chain.cpp", 10};
  pipeline.stages = {stage("first", 8, 4), stage("second", 8, 4)};
  for (auto& one : pipeline.stages) one.output = "c";
  pipeline.stages[1].where = {"chain.cpp", 12};
  depend(pipeline, 1, 0, {std::move(access)}, 23);
  return pipeline;
}

TEST(Overwritten, ATileReadsWhatAnotherOfItsStageOverwrites) {
  EXPECT_EQ(
      findings(in_place({{upto(number(0), number(8)), one(y)}})),
      "mlp.cpp:23: error E0117: tiles of second overwrite c while others of second still read it\n"
      "   second(0, 0) reads first(1, 0), which second(1, 0) overwrites\n"
      "   hint: let second write a buffer of its own, or each of its tiles read only what it overwrites "
      "itself");
  // Right at the edge, wrong beside it.
  EXPECT_EQ(
      findings(in_place({{upto(x + number(-1), x + number(1), true), one(y)}})),
      "mlp.cpp:23: error E0117: tiles of second overwrite c while others of second still read it\n"
      "   second(1, 0) reads first(0, 0), which second(0, 0) overwrites\n"
      "   hint: let second write a buffer of its own, or each of its tiles read only what it overwrites "
      "itself");
  // Two tiles that read each other's.
  EXPECT_NE(findings(in_place({{one(number(7) - x), one(y)}}))
                .find("second(0, 0) reads first(7, 0), which second(7, 0) overwrites"),
            std::string::npos);
}

TEST(Overwritten, InPlaceIsRightWhereATileReadsItself) {
  EXPECT_EQ(findings(in_place({{one(x), one(y)}})), "");
  // Another buffer may be read as it likes.
  auto p = in_place({{upto(number(0), number(8)), one(y)}});
  p.stages[1].output = "d";
  EXPECT_EQ(findings(p), "");
  // A single tile has no others.
  p.stages[1].output = "c";
  p.stages[1].grid = {{"x", 1}, {"y", 1}};
  p.dependences[0].accesses = {{{upto(number(0), number(8)), upto(number(0), number(4))}}};
  EXPECT_EQ(findings(p), "");
}

TEST(Overwritten, TilesOfOtherShapes) {
  // Twice as large: each is what two of the producer's were.
  auto p = in_place({{upto(x * 2, x * 2 + number(2)), one(y)}});
  p.stages[1].grid[0].extent = 4;
  EXPECT_EQ(findings(p), "");
  p.dependences[0].accesses = {{{upto(x * 2, x * 2 + number(3), true), one(y)}}};
  EXPECT_EQ(
      findings(p),
      "mlp.cpp:23: error E0117: tiles of second overwrite c while others of second still read it\n"
      "   second(0, 0) reads first(2, 0), which second(1, 0) overwrites\n"
      "   hint: let second write a buffer of its own, or each of its tiles read only what it overwrites "
      "itself");
  // Half as large: whether a tile reads its own half, nobody says.
  p.stages[1].grid[0].extent = 16;
  p.dependences[0].accesses = {{{one(floor_div(x, 2)), one(y)}}};
  EXPECT_EQ(
      findings(p),
      "mlp.cpp:23: warning E0117: second overwrites c in other tiles than it reads\n"
      "   second(0, 0) reads first(0, 0), which second(0, 0) and others overwrite; second has 16 x 4 "
      "tiles, first has 8 x 4\n"
      "   hint: right only where each tile of second reads no more than it stores; else let second write "
      "a buffer of its own");
  // Of other rank: nothing is known.
  p.stages[1].grid = {{"x", 8}};
  p.dependences[0].accesses = {{{one(x), upto(number(0), number(4))}}};
  EXPECT_NE(findings(p).find("warning E0117: second overwrites c in other tiles than it reads"),
            std::string::npos);
}

TEST(Overwritten, AnInputFromOutsideThatIsOverwritten) {
  auto p = mlp();
  p.stages[0].operands = {{"a", "gemm1_out", 0, 0}};
  EXPECT_EQ(
      findings(p),
      "mlp.cpp:11: warning E0117: gemm1 overwrites gemm1_out while it reads it through a, and nothing "
      "says which tile reads what\n"
      "   hint: right only where each tile of gemm1 reads no more than it stores; else let gemm1 write a "
      "buffer of its own");
  p.stages[0].grid = {{"x", 1}, {"y", 1}};
  p.dependences[0].accesses = {{{one(number(0)), one(number(0))}}};
  EXPECT_EQ(findings(p), "");
}

/// third 8 x 4 reads c through one operand: a row of second, and `access` of first, whose tiles second has
/// overwritten.
Pipeline of_two_writers(Access access) {
  auto pipeline = in_place({{one(x), one(y)}});
  pipeline.stages.push_back(stage("third", 8, 4));
  depend(pipeline, 2, 1, {{{upto(number(0), number(8)), one(y)}}}, 30);
  pipeline.dependences.push_back(
      {2, 0, "a0", {std::move(access)}, OnComplete::release_waiters, {"mlp.cpp", 31}, {}});
  return pipeline;
}

TEST(Overwritten, AnOlderWritersTilesAreReadBesideItsSuccessor) {
  EXPECT_EQ(findings(of_two_writers({{one(x), one(y)}})), "");
  EXPECT_EQ(findings(of_two_writers({{one(x), upto(y, y + number(2), true)}})),
            "mlp.cpp:31: error E0117: third reads c of first, which second overwrites, and does not wait for "
            "second there\n"
            "   third(0, 0) reads first(0, 1), which second(0, 1) overwrites\n"
            "   hint: let third read these tiles of second, or second write a buffer of its own");
  // Waiting through another stage is waiting.
  auto p = of_two_writers({{one(x), upto(y, y + number(2), true)}});
  p.stages.insert(p.stages.begin() + 2, stage("between", 1, 1));
  for (auto& d : p.dependences)
    if (d.consumer == 2) d.consumer = 3;
  depend(p, 2, 1, {{{upto(number(0), number(8)), upto(number(0), number(4))}}}, 40);
  depend(p, 3, 2, {{{one(number(0)), one(number(0))}}}, 41);
  EXPECT_EQ(findings(p), "");
}

// Two stages may fill a buffer together, in tiles of their own shapes, as queries and keys do.
TEST(Overwritten, ABufferOfTwoStagesIsReadWithBoth) {
  auto p = of_two_writers({{one(x), one(y)}});
  p.stages[1].operands.clear();
  p.dependences.erase(p.dependences.begin());
  p.stages[1].grid[0].extent = 2;
  p.dependences[0].accesses = {{{one(floor_div(x, 4)), one(y)}}};
  EXPECT_EQ(findings(p), "");
}

TEST(EmptyReads, SomeTilesReadNothingOfAProducer) {
  auto p = mlp();
  p.dependences[0].accesses = {{{upto(x, y, true), one(y)}}};
  EXPECT_EQ(
      findings(p).substr(0, findings(p).find("\nmlp.cpp:11")),
      "mlp.cpp:23: warning E0107: 186 of 192 tiles of gemm2 read nothing of gemm1 through a0, so they do "
      "not wait for it\n"
      "   the first is gemm2(0, 0), which names gemm1([0, 0), 0); gemm1 has 24 x 4 tiles\n"
      "   hint: right where these tiles read nothing there; else mend the range: it is half-open, "
      "[begin, end) without end, and a clamped one is cut to the grid");
  // Beyond the grid, where clamping hides it.
  p.dependences[0].accesses = {{{upto(x, x + number(2), true), one(y)}},
                               {{upto(x + number(8), x + number(9), true), one(y)}}};
  EXPECT_EQ(
      findings(p).substr(0, findings(p).find("\n   hint")),
      "mlp.cpp:23: warning E0107: 96 of 192 tiles of gemm2 read nothing of gemm1 through a0, so they do "
      "not wait for it\n"
      "   the first is gemm2(24, 0), which names gemm1([24, 26), 0) and gemm1(32, 0); gemm1 has 24 x 4 "
      "tiles");
}

TEST(EmptyReads, FewOfManyRangesAreShown) {
  auto p = mlp();
  p.dependences[0].accesses.assign(9, {{upto(x, y, true), one(y)}});
  EXPECT_NE(findings(p).find("gemm1([0, 0), 0), gemm1([0, 0), 0) and 5 more; gemm1 has"), std::string::npos)
      << findings(p);
}

// As the keys of a query that are in a cache.
TEST(EmptyReads, ATileMayReadItsProducerThroughAnotherOperand) {
  auto p = mlp();
  depend(p, 1, 0, {{{upto(x, y, true), one(y)}}}, 24);
  EXPECT_EQ(findings(p), "");
}

// One range of several may be empty at an edge.
TEST(EmptyReads, ARangeAmongOthersMayBeEmpty) {
  auto p = mlp();
  p.dependences[0].accesses = {{{upto(number(0), number(24)), one(y)}},
                               {{upto(number(0), number(24)), upto(y + number(1), y + number(2), true)}}};
  EXPECT_EQ(findings(p), "");
}

}  // namespace
}  // namespace tessera
