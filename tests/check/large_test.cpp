// SPDX-License-Identifier: Apache-2.0
// 10^6 tiles: at most a second and a GiB.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "check/small_pipelines.hpp"
#include "support/stopwatch.hpp"

namespace tessera {
namespace {

using namespace small;

// The promise is 1 s of an optimized build; unoptimized and sanitized ones get more.
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr double k_seconds = 1;
#else
constexpr double k_seconds = 10;
#endif

void check_in_time(Pipeline const& pipeline) {
  auto const seconds = support::least_seconds(k_seconds, [&] {
    auto const checked = check(pipeline);
    EXPECT_TRUE(checked) << to_text(checked.error());
  });
  EXPECT_LT(seconds, k_seconds);
  testing::Test::RecordProperty("seconds", std::to_string(seconds));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(usage.ru_maxrss, 1L << 20) << "KiB";
#endif
}

Pipeline chain(std::int64_t columns, std::int64_t rows, int stages) {
  Pipeline pipeline;
  pipeline.name = "large";
  for (int s = 0; s < stages; ++s) pipeline.stages.push_back(stage("s" + std::to_string(s), columns, rows));
  return pipeline;
}

TEST(Large, SameTile) {
  auto pipeline = chain(1000, 1000, 2);
  depend(pipeline, 1, 0, {{{one(x), one(y)}}}, 1);
  check_in_time(pipeline);
}

TEST(Large, RowsOfATransformer) {
  auto pipeline = chain(1000, 1000, 2);
  depend(pipeline, 1, 0, {{{upto(number(0), number(1000)), one(y)}}}, 1);
  check_in_time(pipeline);
  auto const facts = check(pipeline)->facts()[0];
  EXPECT_EQ(facts, (DependenceFacts{1'000'000'000, 1000, 1000, 0}));
}

TEST(Large, HaloWithDivisionAndTwoAccesses) {
  auto pipeline = chain(1000, 1000, 2);
  auto const halo = upto(x + number(-1), x + number(2), true);
  depend(pipeline, 1, 0,
         {{{halo, upto(floor_div(y, 2), floor_div(y, 2) + number(3), true)}},
          {{one(modulo(x + y * 7, 1000)),
            upto(maximum(y + number(-2), number(0)), minimum(y + number(2), number(1000)))}}},
         1);
  check_in_time(pipeline);
}

TEST(Large, OverwrittenBufferAtDistanceTwo) {
  auto pipeline = chain(400, 250, 3);
  depend(pipeline, 1, 0, {{{upto(number(0), number(400)), one(y)}}}, 1);
  depend(pipeline, 2, 1, {{{upto(number(0), number(400)), one(y)}}}, 2);
  pipeline.stages[2].output = pipeline.stages[0].output;
  check_in_time(pipeline);
  auto const reuses = check(pipeline)->reuses();
  ASSERT_EQ(reuses.size(), 2u);
  EXPECT_TRUE(reuses[0].covered);
  EXPECT_TRUE(reuses[1].covered);
}

TEST(Large, OverwrittenBufferTileByTile) {
  auto pipeline = chain(1000, 100, 3);
  depend(pipeline, 1, 0, {{{upto(x + number(-1), x + number(2), true), one(y)}}}, 1);
  depend(pipeline, 2, 1, {{{one(x), one(y)}}}, 2);
  pipeline.stages[2].output = pipeline.stages[0].output;
  check_in_time(pipeline);
  auto const reuses = check(pipeline)->reuses();
  ASSERT_EQ(reuses.size(), 2u);
  EXPECT_TRUE(reuses[0].covered);
  EXPECT_EQ(reuses[1], (BufferReuse{2, 1, "s0_out", false, 0, 1}))
      << "s1(1, 0) still reads s0(0, 0), which s2(0, 0) overwrites";
}

// Of 80 000 pairs of steps nearly all follow from others.
TEST(Large, StepsOfALoop) {
  Loop loop;
  loop.body = chain(16, 64, 1);
  loop.body.stages[0].operands = {{"before", loop.body.stages[0].output, 0, 0}};
  auto const around = [](TileExpr const& at) { return upto(at + number(-1), at + number(2), true); };
  loop.carried = {
      {{0, 0, "before", {{{around(x), one(y)}}, {{one(x), around(y)}}}, OnComplete::release_waiters, {}, {}},
       1}};
  loop.copies = {{loop.body.stages[0].output, 2}};
  auto const seconds = support::least_seconds(k_seconds, [&] { EXPECT_TRUE(check(loop, 400)); });
  EXPECT_LT(seconds, k_seconds);
  auto const checked = check(loop, 400);
  for (auto const& reuse : checked->reuses())
    EXPECT_TRUE(reuse.covered || reuse.reader == 0) << reuse.writer << " " << reuse.reader;
}

TEST(Large, RefusesMorePairsOfStagesThanMemoryIsMeantFor) {
  Loop loop;
  loop.body = chain(1, 1, 1);
  loop.body.where = {"steps.cpp", 4};
  EXPECT_TRUE(check(loop, 2048));
  auto const checked = check(loop, 2050);
  ASSERT_FALSE(checked);
  EXPECT_EQ(
      to_text(checked.error()),
      R"(steps.cpp:4: error E0112: the stages that use each other's buffers are too many to check: more than 2097152 pairs of a stage that writes a buffer and an earlier one that uses it
   2050 stages
   hint: check a part of it; of a loop, fewer iterations: more of them repeat what these do)");
}

TEST(Large, RefusesWhatWouldTakeTooLong) {
  auto pipeline = chain(4096, 4096, 2);
  std::vector<Access> accesses(20, Access{{upto(number(0), x + number(1)), one(y)}});
  depend(pipeline, 1, 0, accesses, 1);
  auto const checked = check(pipeline);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error()[0].code, "E0112");
}

}  // namespace
}  // namespace tessera
