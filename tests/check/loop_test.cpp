// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "small_pipelines.hpp"
#include "tessera/check/check.hpp"

namespace tessera {
namespace {

using namespace small;

/// step 8 x 4; a tile reads its neighbours of the step before.
Loop stencil() {
  Loop loop;
  loop.body.name = "stencil";
  loop.body.where = {"stencil.cpp", 3};
  loop.body.stages = {stage("step", 8, 4)};
  loop.body.stages[0].output = "u";
  loop.body.stages[0].operands = {{"before", "u", 0, 0}};
  Access const access{{upto(x + number(-1), x + number(2), true), one(y)}};
  loop.carried = {{{0, 0, "before", {access}, OnComplete::release_waiters, {"stencil.cpp", 7}, {}}, 1}};
  loop.copies = {{"u", 2}};
  return loop;
}

std::string refusal(Loop const& loop, int iterations = 10) {
  auto const checked = check(loop, iterations);
  return checked ? "accepted" : to_text(checked.error());
}

TEST(CheckLoop, AcceptsAStencilOfTwoCopies) { EXPECT_EQ(refusal(stencil()), "accepted"); }

TEST(CheckLoop, OneCopyIsOverwrittenWhileNeighboursRead) {
  auto loop = stencil();
  loop.copies.clear();
  EXPECT_EQ(
      refusal(loop),
      R"(stencil.cpp:7: error E0115: step reads u of 1 iteration before, but tiles of step overwrite it while others still read
   buffer u has 1 copy
   hint: give u 2 copies)");
  // In place is right where a tile reads nothing but itself.
  loop.carried[0].dependence.accesses = {{{one(x), one(y)}}};
  auto const checked = check(loop, 10);
  ASSERT_TRUE(checked) << to_text(checked.error());
  // The first iteration, too: what it reads comes from outside, and in its own tile all the same.
  EXPECT_EQ(to_text(checked->warnings()), "");
  // Tiles that read others' within the iteration are found as in a pipeline, once.
  loop.body.stages.push_back(stage("smooth", 8, 4));
  loop.body.stages[1].output = "u";
  loop.body.stages[1].operands = {{"rough", "u", 0, 0}};
  loop.body.dependences = {{1,
                            0,
                            "rough",
                            {{{upto(x, x + number(2), true), one(y)}}},
                            OnComplete::release_waiters,
                            {"stencil.cpp", 11},
                            {}}};
  loop.carried[0].dependence.producer = 1;
  EXPECT_EQ(
      refusal(loop),
      R"(stencil.cpp:11: error E0117: tiles of smooth_0 overwrite u while others of smooth_0 still read it
   smooth_0(0, 0) reads step_0(1, 0), which smooth_0(1, 0) overwrites
   the same in 9 later iterations
   hint: let smooth_0 write a buffer of its own, or each of its tiles read only what it overwrites itself)");
}

TEST(CheckLoop, AnOlderIterationNeedsMoreCopies) {
  auto loop = stencil();
  loop.carried[0].distance = 3;
  EXPECT_EQ(
      refusal(loop),
      R"(stencil.cpp:7: error E0115: step reads u of 3 iterations before, but step overwrites it 2 iterations later
   buffer u has 2 copies
   hint: give u 4 copies)");
  loop.copies[0].copies = 4;
  EXPECT_EQ(refusal(loop), "accepted");
  loop.copies[0].copies = BufferCopies::each_iteration;
  EXPECT_EQ(refusal(loop), "accepted");
}

// In place an iteration may be overwritten by just that one which has read it.
TEST(CheckLoop, AsManyCopiesAsTheDistanceAreEnoughInPlace) {
  auto loop = stencil();
  loop.carried[0].distance = 2;
  loop.carried[0].dependence.accesses = {{{one(x), one(y)}}};
  loop.copies.clear();
  EXPECT_EQ(
      refusal(loop),
      R"(stencil.cpp:7: error E0115: step reads u of 2 iterations before, but step overwrites it 1 iteration later
   buffer u has 1 copy
   hint: give u 2 copies)");
  loop.copies = {{"u", 2}};
  EXPECT_EQ(refusal(loop), "accepted");
  // A second reader, of neighbours, needs one more.
  loop.copies = {{"u", 1}};
  loop.body.stages[0].operands.push_back({"around", "u", 0, 0});
  loop.carried.push_back(loop.carried[0]);
  loop.carried[1].dependence.operand = "around";
  loop.carried[1].dependence.accesses = {{{upto(x, x + number(2), true), one(y)}}};
  EXPECT_NE(refusal(loop).find("give u 3 copies"), std::string::npos) << refusal(loop);
  EXPECT_EQ(refusal(loop).find("give u 2 copies"), std::string::npos) << refusal(loop);
  loop.copies = {{"u", 2}};
  EXPECT_NE(refusal(loop).find("give u 3 copies"), std::string::npos) << refusal(loop);
  loop.copies = {{"u", 3}};
  EXPECT_EQ(refusal(loop), "accepted");
}

// A buffer has 64 copies at most.
TEST(CheckLoop, TheLongestDistanceNeedsACopyForEachIteration) {
  auto loop = stencil();
  loop.carried[0].distance = 64;
  EXPECT_NE(refusal(loop).find("hint: give u a copy for each iteration"), std::string::npos) << refusal(loop);
  loop.copies = {{"u", BufferCopies::each_iteration}};
  EXPECT_EQ(refusal(loop, 2), "accepted");
}

TEST(CheckLoop, ALaterStageReadsWhatAnEarlierOneHasOverwritten) {
  auto loop = stencil();
  loop.copies.clear();
  loop.body.stages[0].operands.clear();
  loop.body.stages.push_back(stage("use", 8, 4));
  loop.body.stages[1].operands = {{"old", "u", 0, 0}};
  loop.carried[0].dependence = {
      1, 0, "old", {{{one(x), one(y)}}}, OnComplete::release_waiters, {"stencil.cpp", 9}, {}};
  EXPECT_EQ(
      refusal(loop),
      R"(stencil.cpp:9: error E0115: use reads u of 1 iteration before, but step overwrites it before use reads it
   buffer u has 1 copy
   hint: give u 2 copies)");
  // The other way round it is read first.
  std::swap(loop.body.stages[0], loop.body.stages[1]);
  loop.carried[0].dependence.consumer = 0;
  loop.carried[0].dependence.producer = 1;
  EXPECT_EQ(refusal(loop), "accepted");
}

TEST(CheckLoop, FewIterationsAreCheckedAsMany) {
  auto loop = stencil();
  // Wrong only from the second iteration on, where the read has a producer.
  loop.carried[0].dependence.accesses = {{{upto(x, x + number(2)), one(y)}}};
  loop.copies[0].copies = 3;
  EXPECT_NE(refusal(loop, 1).find("E0103"), std::string::npos) << refusal(loop, 1);
}

// The stage of the iteration before has written the operand's buffer; that is not what the read lacks.
TEST(CheckLoop, ReadsBackwardsWithinAnIterationAreTheOnlyMistake) {
  auto loop = stencil();
  loop.body.dependences = {loop.carried[0].dependence};
  loop.carried.clear();
  loop.copies.clear();
  EXPECT_EQ(refusal(loop, 3), R"(stencil.cpp:7: error E0104: step_0 depends on itself
   the same in 2 later iterations
   hint: a stage reads only what other stages wrote; make it two stages)");
  // Of a later stage.
  loop.body.stages.insert(loop.body.stages.begin(), stage("use", 8, 4));
  loop.body.stages[0].operands = {{"before", "u", 0, 0}};
  loop.body.stages[1].operands.clear();
  loop.body.dependences[0].producer = 1;
  EXPECT_EQ(refusal(loop, 3),
            R"(stencil.cpp:7: error E0104: use_0 reads step_0, which is launched after it
   launch order: use_0 is stage 0, step_0 is stage 1
   the same in 2 later iterations
   hint: put step_0 before use_0)");
}

// The first iteration that has the fault, which is not the first one of all.
TEST(CheckLoop, AFaultIsSaidOnceHoweverManyIterationsHaveIt) {
  auto loop = stencil();
  loop.carried[0].dependence.accesses = {{{upto(x, x + number(2)), one(y)}}};
  EXPECT_EQ(refusal(loop, 4096),
            R"(stencil.cpp:7: error E0103: dependence reads step_0 tiles outside its grid
   step_1(x, y) needs step_0(i, y) for x <= i < x + 2, but step_0 has 8 tiles in x
   first bad pair: step_1(7, 0) -> step_0(8, 0)
   4 of the tiles asked for do not exist; step_1 has 8 x 4 tiles, step_0 has 8 x 4
   the same in 4094 later iterations
   hint: compare the grids of both stages in x; if tiles at the edge simply need fewer tiles, clamp the range)");
}

TEST(CheckLoop, DifferentFaultsAreAllSaid) {
  auto loop = stencil();
  loop.body.stages.push_back(stage("step_2", 8, 4));  // named as if it were another iteration of step
  loop.body.dependences = {
      {0, 0, "before", {{{one(x), one(y)}}}, OnComplete::release_waiters, {"stencil.cpp", 9}, {}},
      {1, 1, "before", {{{one(x), one(y)}}}, OnComplete::release_waiters, {"stencil.cpp", 9}, {}}};
  loop.carried.clear();
  loop.body.stages[1].operands = {{"before", "step_2_out", 0, 0}};
  loop.copies.clear();
  EXPECT_EQ(refusal(loop, 20), R"(stencil.cpp:9: error E0104: step_0 depends on itself
   the same in 19 later iterations
   hint: a stage reads only what other stages wrote; make it two stages
stencil.cpp:9: error E0104: step_2_0 depends on itself
   the same in 19 later iterations
   hint: a stage reads only what other stages wrote; make it two stages)");
}

TEST(CheckLoop, AWarningIsSaidOnce) {
  auto loop = stencil();
  loop.carried[0].dependence.accesses = {{{upto(x, x + number(2), true), one(y)}},
                                         {{upto(x, x + number(1)), upto(y, y)}}};
  auto const checked = check(loop, 40);
  ASSERT_TRUE(checked) << to_text(checked.error());
  EXPECT_EQ(to_text(checked->warnings()),
            R"(stencil.cpp:7: warning E0107: step_1 reads no tile of step_0 here
   step_0(x, i) for y <= i < y is empty for every tile of step_1
   the same in 38 later iterations
   hint: a range is half-open: [begin, end) without end)");
  EXPECT_EQ(checked->iteration_stages(), 1);
}

TEST(CheckLoop, RefusesWhatMeansNothing) {
  auto loop = stencil();
  loop.carried[0].distance = 0;
  loop.copies.push_back({"u", -1});
  loop.copies.push_back({"v", 2});
  EXPECT_EQ(refusal(loop), R"(stencil.cpp:3: error E0114: the copies of buffer u are given twice
   hint: give them once
stencil.cpp:3: error E0114: buffer u has -1 copies: between 1 and 64 are possible, or one for each iteration
   hint: a distance of n iterations needs n + 1 copies at most
stencil.cpp:3: error E0114: buffer v has copies, but no stage reads or writes it
   hint: name a stage's output, or the buffer of an operand
stencil.cpp:7: error E0114: step reads step of 0 iterations before: between 1 and 64 are possible
   hint: a read within the iteration has no distance)");
  loop = stencil();
  loop.carried.push_back(loop.carried[0]);
  loop.carried[1].distance = 2;
  EXPECT_EQ(refusal(loop), R"(stencil.cpp:7: error E0114: operand before of step reads more than one iteration
   an operand is one copy of a buffer
   hint: make an operand for each distance
stencil.cpp:7: error E0114: operand before of step reads more than one iteration
   an operand is one copy of a buffer
   hint: make an operand for each distance)");
  loop = stencil();
  loop.carried[0].dependence.producer = 4;
  EXPECT_EQ(
      refusal(loop),
      R"(stencil.cpp:7: error E0114: a dependence on an earlier iteration names a stage that does not exist
   the body has 1 stage)");
  EXPECT_EQ(refusal(stencil(), 0),
            R"(stencil.cpp:3: error E0114: 0 iterations cannot be written out: between 1 and 4096 can
   hint: check or plan a few; more of them repeat what these do)");
}

}  // namespace
}  // namespace tessera
