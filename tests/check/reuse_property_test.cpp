// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <optional>

#include "check/brute_force.hpp"
#include "check/reuse.hpp"
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
