// SPDX-License-Identifier: Apache-2.0
// What may be asked of a flow: after a stall, and where graphs count on an even number of steps.
#include "kernels/lattice_boltzmann/progress.hpp"

#include <gmock/gmock.h>

namespace tessera::lattice_boltzmann {
namespace {

using testing::HasSubstr;

void expect_refused(Expected<void> const& asked, std::string const& text) {
  ASSERT_FALSE(asked) << text;
  EXPECT_EQ(asked.error().front().code, "E0569");
  EXPECT_THAT(to_text(asked.error()), HasSubstr(text));
}

TEST(LatticeBoltzmannProgress, AFlowThatIsLostBeginsAnew) {
  for (auto const variant : k_variants) {
    Progress flow{7, true};
    EXPECT_EQ(to_text(flow.may_run(variant, 1, false).error()),
              "error E0569: the flow is lost: a launch before did not come to its end\n"
              "   hint: call start_again(), which begins anew");
    expect_refused(flow.may_write(variant, false), "start_again()");
    ASSERT_TRUE(flow.may_start_again(false));
    flow.started();
    EXPECT_EQ(flow.steps_done, 0);
    EXPECT_TRUE(flow.may_run(variant, 1, false));
    EXPECT_TRUE(flow.may_write(variant, false));
  }
}

TEST(LatticeBoltzmannProgress, NumbersOfSteps) {
  Progress const flow;
  expect_refused(flow.may_run(Variant::barrier, -1, false), "-1 steps");
  expect_refused(flow.may_run(Variant::barrier, 1'000'000'001, false), "ask for 0 to 1,000,000,000");
  EXPECT_TRUE(flow.may_run(Variant::barrier, 1'000'000'000, false));
}

TEST(LatticeBoltzmannProgress, GraphsOfLatticesInMemoryCountOnEvenSteps) {
  for (auto const variant :
       {Variant::two_lattices, Variant::in_place, Variant::trips, Variant::barrier, Variant::cooperative}) {
    SCOPED_TRACE(to_string(variant));
    Progress flow;
    expect_refused(flow.may_run(variant, 5, true), "a capture of 5 steps");
    flow.ran(variant, 3, false);
    expect_refused(flow.may_run(variant, 4, true),
                   "a capture of steps behind 3 steps as " + to_string(variant));
    EXPECT_TRUE(flow.may_run(variant, 3, false)) << "nothing was captured";
    flow.ran(variant, 3, false);
    ASSERT_TRUE(flow.may_run(variant, 4, true));
    flow.ran(variant, 4, true);
    expect_refused(flow.may_run(variant, 3, false), "where something was captured");
    EXPECT_TRUE(flow.may_run(variant, 6, false));
    flow.started();
    expect_refused(flow.may_run(variant, 3, false), "where something was captured");
  }
}

/// A loop of neighbours reads which lattice is first; a flow that is written is in the one that it was in.
TEST(LatticeBoltzmannProgress, NeighboursAreBoundByAGraphThatWritesAlone) {
  Progress flow;
  expect_refused(flow.may_run(Variant::neighbours, 5, true), "a capture of 5 steps");
  flow.ran(Variant::neighbours, 3, false);
  EXPECT_TRUE(flow.may_run(Variant::neighbours, 4, true));
  flow.ran(Variant::neighbours, 4, true);
  EXPECT_TRUE(flow.may_run(Variant::neighbours, 3, false));
  expect_refused(flow.may_write(Variant::neighbours, true), "a capture of a flow that is written behind 7");
  flow.ran(Variant::neighbours, 3, false);
  ASSERT_TRUE(flow.may_write(Variant::neighbours, true));
  flow.written(Variant::neighbours, true);
  expect_refused(flow.may_run(Variant::neighbours, 3, false), "where something was captured");
}

TEST(LatticeBoltzmannProgress, OnTheChipAnyNumberIsCaptured) {
  Progress flow;
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(flow.may_run(Variant::chip_tokens, 3, true));
    flow.ran(Variant::chip_tokens, 3, true);
    EXPECT_TRUE(flow.may_run(Variant::chip_tokens, 5, false));
    EXPECT_TRUE(flow.may_write(Variant::chip_tokens, true));
    flow.written(Variant::chip_tokens, true);
  }
}

TEST(LatticeBoltzmannProgress, AStartIsNotCaptured) {
  expect_refused(Progress{}.may_start_again(true), "a capture of a flow's start");
}

}  // namespace
}  // namespace tessera::lattice_boltzmann
