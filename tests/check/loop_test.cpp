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
  EXPECT_EQ(refusal(loop), "accepted");
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
   hint: a stage reads only what other stages wrote; make it two stages
stencil.cpp:7: error E0104: step_1 depends on itself
   hint: a stage reads only what other stages wrote; make it two stages
stencil.cpp:7: error E0104: step_2 depends on itself
   hint: a stage reads only what other stages wrote; make it two stages)");
  // Of a later stage.
  loop.body.stages.insert(loop.body.stages.begin(), stage("use", 8, 4));
  loop.body.stages[0].operands = {{"before", "u", 0, 0}};
  loop.body.stages[1].operands.clear();
  loop.body.dependences[0].producer = 1;
  EXPECT_EQ(refusal(loop, 3),
            R"(stencil.cpp:7: error E0104: use_0 reads step_0, which is launched after it
   launch order: use_0 is stage 0, step_0 is stage 1
   hint: put step_0 before use_0
stencil.cpp:7: error E0104: use_1 reads step_1, which is launched after it
   launch order: use_1 is stage 2, step_1 is stage 3
   hint: put step_1 before use_1
stencil.cpp:7: error E0104: use_2 reads step_2, which is launched after it
   launch order: use_2 is stage 4, step_2 is stage 5
   hint: put step_2 before use_2)");
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
