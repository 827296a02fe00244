// SPDX-License-Identifier: Apache-2.0
// Posts that others see later than they were made: what peers tell each other over a link.
#include <gmock/gmock.h>

#include <limits>

#include "support/plans.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

/// One worker takes a tile of the first stage, 1 us, one of the second, which nobody waits for, and one of
/// the third, which waits for the first's.
Plan three_tiles(MachineProfile const& machine, double between_us) {
  Pipeline p;
  p.name = "told";
  p.stages = {support::make_stage("first", 1, 1), support::make_stage("between", 1, 1, between_us),
              support::make_stage("last", 1, 1)};
  p.stages[2].operands = {{"a", "first", 0, 0}};
  p.dependences = {support::row_dependence(p, 2, 0)};
  return support::make_plan(p, machine, Mechanism::fused, support::Policy::tile_sync);
}

double end_us(Plan const& plan, MachineProfile const& machine, std::vector<double> const& later) {
  SimulateOptions options;
  options.seen_later_ns = later;
  auto const timeline = simulate(plan, machine, options);
  EXPECT_TRUE(timeline) << (timeline ? "" : to_text(timeline.error()));
  return timeline ? static_cast<double>(timeline->end) / 1e6 : 0;
}

TEST(SeenLater, WhoWaitsWaitsAndTheBlockGoesOn) {
  auto const machine = support::ideal_machine(1);
  auto const plan = three_tiles(machine, 2);
  double const at_once = end_us(plan, machine, {});
  EXPECT_DOUBLE_EQ(at_once, 4);
  EXPECT_DOUBLE_EQ(end_us(plan, machine, {0, 0, 0}), at_once);
  // Hidden behind the tile between.
  EXPECT_DOUBLE_EQ(end_us(plan, machine, {1500, 0, 0}), at_once);
  EXPECT_DOUBLE_EQ(end_us(plan, machine, {2000, 0, 0}), at_once);
  // On its way when the worker comes to wait.
  EXPECT_DOUBLE_EQ(end_us(plan, machine, {2750, 0, 0}), at_once + 0.75);
  // Of tiles that nobody waits for nothing depends on it.
  EXPECT_DOUBLE_EQ(end_us(plan, machine, {0, 5000, 5000}), at_once);
}

TEST(SeenLater, WhoWaitsAlreadyIsWokenLater) {
  auto const machine = support::ideal_machine(2);
  auto const plan = three_tiles(machine, 0.5);
  // The second worker has waited since 0.5 us.
  EXPECT_DOUBLE_EQ(end_us(plan, machine, {}), 2);
  EXPECT_DOUBLE_EQ(end_us(plan, machine, {750, 0, 0}), 2.75);
}

TEST(SeenLater, TimesThatCannotBeAreRefused) {
  auto const machine = support::ideal_machine(1);
  auto const plan = three_tiles(machine, 1);
  for (auto const& later : {std::vector<double>{1, 1},
                            {0, 0, 0, 0},
                            {0, -1, 0},
                            {0, std::numeric_limits<double>::quiet_NaN(), 0},
                            {1e300, 0, 0}}) {
    SimulateOptions options;
    options.seen_later_ns = later;
    auto const refused = simulate(plan, machine, options);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error()[0].code, "E0505");
    EXPECT_THAT(refused.error()[0].message, testing::HasSubstr("seen later"));
  }
}

}  // namespace
}  // namespace tessera
