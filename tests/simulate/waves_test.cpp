// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "support/plans.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

constexpr std::int64_t k_microsecond = 1'000'000;

Timeline run(Plan const& plan, MachineProfile const& machine) {
  auto const timeline = simulate(plan, machine);
  EXPECT_TRUE(timeline.has_value()) << to_text(timeline.error());
  return timeline.value_or(Timeline{});
}

TEST(Waves, FigureOneOfThePaper) {
  auto const machine = support::ideal_machine(4);
  auto const stream =
      run(support::make_plan(support::figure_one(), machine, Mechanism::stream_order), machine);
  EXPECT_EQ(stream.waves, 4);
  EXPECT_EQ(stream.end, 4 * k_microsecond);
  auto const tiles = run(support::make_plan(support::figure_one(), machine, Mechanism::wait_kernel), machine);
  EXPECT_EQ(tiles.waves, 3);
  EXPECT_EQ(tiles.end, 3 * k_microsecond);
}

}  // namespace
}  // namespace tessera
