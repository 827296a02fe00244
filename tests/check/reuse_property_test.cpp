// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <optional>

#include "check/brute_force.hpp"
#include "check/reuse.hpp"
#include "check/small_pipelines.hpp"
#include "support/random_pipeline.hpp"

namespace tessera {
namespace {

void compare(Pipeline const& pipeline, BufferReuse const& reuse) {
  auto const pair = brute_force::uncovered(pipeline, reuse);
  RC_ASSERT(reuse.covered == !pair.has_value());
  if (pair) {
    RC_ASSERT(reuse.writer_tile == pair->first);
    RC_ASSERT(reuse.reader_tile == pair->second);
  }
}

random::Options const k_options{.max_extent = 4, .reuse_buffers = true, .max_tiles = 24};

TEST(Reuse, EqualsTheTransitiveClosureTileByTile) {
  EXPECT_TRUE(rc::check("check()", [] {
    auto const pipeline = *random::pipelines(k_options);
    auto const checked = check(pipeline);
    if (!checked) RC_FAIL(to_text(checked.error()));
    for (auto const& reuse : checked->reuses()) {
      compare(pipeline, reuse);
      RC_TAG(reuse.covered ? "covered" : "not covered");
    }
  }));
}

// What follows from the iterations before is not asked; it is the same.
TEST(Reuse, OfManyIterationsEqualsTheTransitiveClosure) {
  using namespace small;
  for (int const copies : {2, 3})
    for (bool const all_read : {false, true}) {
      Loop loop;
      loop.body.name = "stencil";
      loop.body.stages = {stage("step", 4, 2), stage("sum", 2, 2)};
      loop.body.stages[0].output = "u";
      loop.body.stages[0].operands = {{"before", "u", 0, 0}};
      loop.body.stages[1].output = "s";
      loop.body.stages[1].operands = {{"values", "u", 0, 0}};
      auto const around = upto(x + number(-1), x + number(2), true);
      loop.carried = {{{0, 0, "before", {{{around, one(y)}}}, OnComplete::release_waiters, {}, {}}, 1}};
      // Not all of a step: what nobody reads nobody awaits.
      auto const columns = all_read ? upto(x * 2, x * 2 + number(2)) : one(x * 2);
      loop.body.dependences = {{1, 0, "values", {{{columns, one(y)}}}, OnComplete::release_waiters, {}, {}}};
      loop.copies = {{"u", copies}};
      auto const checked = check(loop, 9);
      ASSERT_TRUE(checked) << to_text(checked.error());
      int covered = 0;
      for (auto const& reuse : checked->reuses()) {
        auto const pair = brute_force::uncovered(checked->pipeline(), reuse);
        EXPECT_EQ(reuse.covered, !pair) << reuse.writer << " " << reuse.reader;
        if (pair) {
          EXPECT_EQ(std::pair(reuse.writer_tile, reuse.reader_tile), *pair);
        }
        covered += reuse.covered ? 1 : 0;
      }
      EXPECT_GT(covered, 10);
      EXPECT_LT(covered, std::ssize(checked->reuses()));
    }
}

TEST(Reuse, SetsGiveTheSameAnswers) {
  int decided = 0;
  int gave_up = 0;
  EXPECT_TRUE(rc::check("sets", [&] {
    auto const pipeline = *random::pipelines(k_options);
    for (auto reuse : check_detail::find_reuses(pipeline)) {
      if (check_detail::decide_by_sets(pipeline, reuse, 100'000)) {
        compare(pipeline, reuse);
        ++decided;
      } else {
        ++gave_up;
      }
    }
  }));
  EXPECT_GT(decided, 9 * gave_up) << "isl must decide nearly all small pipelines";
}

}  // namespace
}  // namespace tessera
