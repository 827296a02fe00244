// SPDX-License-Identifier: Apache-2.0
// The table that drives random loops' tiles: a wrong one is found, by iteration, stage and tile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/loop_run.hpp"
#include "support/random_loop.hpp"
#include "support/stencil.hpp"
#include "tessera/check/check.hpp"

namespace tessera {
namespace {

using loop_table::meant;
using loop_table::OperandRow;
using loop_table::Table;
using ::testing::StartsWith;

constexpr int k_iterations = 7;

/// The loop in stage order, by that table; empty: as it was meant.
std::string wrong_by(Table const& table, Loop const& loop) {
  support::LoopRun run(table, k_iterations);
  for (int n = 0; n < k_iterations; ++n)
    for (int s = 0; s < table.stages; ++s)
      for (int tile = 0; tile < table.stage[s].tiles; ++tile) run.compute(s, n, tile);
  return run.wrong(meant(loop, k_iterations));
}

TEST(LoopTable, AStencilReadsItsNeighboursOfTheOtherCopy) {
  auto const loop = support::stencil(4);
  auto const table = loop_table::table_of(loop, k_iterations);
  auto const& row = table.stage[0];
  EXPECT_EQ(row.operands, 1);
  EXPECT_EQ(row.operand[0].distance, 1);
  unsigned const wanted[] = {0b0011, 0b0111, 0b1110, 0b1100};
  for (int tile = 0; tile < 4; ++tile) EXPECT_EQ(row.operand[0].reads[tile], wanted[tile]) << tile;
  EXPECT_EQ(loop_table::place_of(table, 0, 3, 2), (4 + 2) * loop_table::k_width);
  EXPECT_EQ(loop_table::place_of(table, 0, -2, 1), 1 * loop_table::k_width);
  EXPECT_EQ(wrong_by(table, loop), "");
}

TEST(LoopTable, AWrongOneIsFound) {
  int changed = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    auto const loop = random::loop_of(seed);
    if (!check(loop, k_iterations)) continue;
    auto const right = loop_table::table_of(loop, k_iterations);
    ASSERT_EQ(wrong_by(right, loop), "") << random::text_of(seed, loop);
    for (int s = 0; s < right.stages; ++s)
      for (int o = 0; o < right.stage[s].operands; ++o) {
        auto const found = [&](auto const& change) {
          auto wrong = right;
          change(wrong.stage[s].operand[o]);
          ++changed;
          return wrong_by(wrong, loop);
        };
        auto const& operand = right.stage[s].operand[o];
        auto const what = fmt::format("operand {} of stage {}, {}", o, s, random::text_of(seed, loop));
        EXPECT_THAT(found([](OperandRow& row) { row.reads[0] &= row.reads[0] - 1; }),
                    StartsWith(fmt::format("iteration 0, stage {}, tile 0: ", s)))
            << what;
        EXPECT_THAT(found([](OperandRow& row) { row.reads[1] ^= 1u; }),
                    StartsWith(fmt::format("iteration 0, stage {}, tile 1: ", s)))
            << what;
        if (right.stage[operand.producer].copies == 1 || operand.distance == 0) continue;
        EXPECT_THAT(found([](OperandRow& row) { --row.distance; }),
                    StartsWith(fmt::format("iteration 0, stage {}, tile 0: ", s)))
            << what;
      }
  }
  EXPECT_GT(changed, 500);
}

TEST(LoopTable, ACopyThatIsOverwrittenInTheEndIsFound) {
  auto const loop = support::stencil(4);
  support::LoopRun run(loop, 2);
  for (int n = 0; n < 2; ++n)
    for (int tile = 0; tile < 4; ++tile) run.compute(0, n, tile);
  EXPECT_EQ(run.wrong(meant(loop, 2)), "");
  run.compute(0, 0, 3);  // again, from what iteration 1 has left
  EXPECT_THAT(run.wrong(meant(loop, 2)), StartsWith("iteration 0, stage 0, tile 3: value 0 is "));
}

TEST(LoopTable, RefusesALoopThatIsLarger) {
  auto loop = support::stencil(9);
  EXPECT_THROW(loop_table::table_of(loop, 1), std::length_error);
  loop = support::stencil(4);
  loop.carried[0].distance = 4;
  EXPECT_THROW(loop_table::table_of(loop, 1), std::length_error);
}

}  // namespace
}  // namespace tessera
