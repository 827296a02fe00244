// SPDX-License-Identifier: Apache-2.0
// Flows that are refused before a GPU is asked for (E0568).
#include <gmock/gmock.h>

#include "kernels/lattice_boltzmann/problem.hpp"

namespace tessera::lattice_boltzmann {
namespace {

void expect_refused(Problem const& problem, std::string const& text) {
  auto const checked = check_problem(problem);
  ASSERT_FALSE(checked) << text;
  EXPECT_EQ(to_text(checked.error()), text);
}

TEST(LatticeBoltzmannRefusal, Boxes) {
  expect_refused({0, 8, 8},
                 "error E0568: a box of 0x8x8 cells\n   hint: ask for 1 to 4096 cells along each axis");
  expect_refused({8, 8, 4097},
                 "error E0568: a box of 8x8x4097 cells\n   hint: ask for 1 to 4096 cells along each axis");
  expect_refused({4096, 4096, 128},
                 "error E0568: a box of 2147483648 cells\n   hint: ask for fewer than 2^31");
  Problem half{8, 8, 8};
  half.faces[3] = Face::wall;
  expect_refused(half,
                 "error E0568: a box that is periodic at one end of y and has a wall at the other\n"
                 "   hint: make both ends periodic, or both walls");
}

TEST(LatticeBoltzmannRefusal, UnstableParameters) {
  expect_refused(
      {8, 8, 8, 0.5},
      "error E0568: a relaxation time tau of 0.5\n   hint: ask for more than 0.5: the viscosity (tau - "
      "1/2) / 3 is positive; below 0.51 few flows stay stable");
  EXPECT_FALSE(check_problem({8, 8, 8, std::nan("")}));
  EXPECT_FALSE(check_problem({8, 8, 8, 0.49}));
  EXPECT_TRUE(check_problem({8, 8, 8, 0.5001}));
  expect_refused(driven_cavity(16, 0.2, 100),
                 "error E0568: a wall that moves at 0.2 cells a step, Mach 0.346\n"
                 "   hint: stay below Mach 0.3, 0.173 cells a step: smaller steps of time");
  EXPECT_TRUE(check_problem(driven_cavity(16, 0.17, 100)));
  EXPECT_THAT(to_text(check_problem(taylor_green(16, 16, 1, 0.3, 0.6)).error()),
              testing::HasSubstr("a flow that starts at 0."));
  Problem pushed{8, 8, 8};
  pushed.force[1] = 1;
  EXPECT_THAT(to_text(check_problem(pushed).error()), testing::HasSubstr("a force that leaves a fluid"));
}

TEST(LatticeBoltzmannRefusal, LidsThatMoveThroughTheirOwnFace) {
  auto p = cavity(8, 8, 8, 0.05, 0.6);
  p.lid[2] = 0.05;
  EXPECT_TRUE(check_problem(p));
  p.lid[1] = -0.01;
  expect_refused(p,
                 "error E0568: a lid at y = height that moves through its own face, -0.01 cells a step\n"
                 "   hint: set lid[1] to 0: a lid slides along its face");
  p.faces = {Face::lid, Face::wall};
  expect_refused(p,
                 "error E0568: a lid at x = 0 that moves through its own face, 0.05 cells a step\n"
                 "   hint: set lid[0] to 0: a lid slides along its face");
}

/// Each flow has words of its own, and the boxes are those that are asked for.
TEST(LatticeBoltzmannRefusal, NamedFlows) {
  auto const text = [](char const* name, int width, int height, double speed) {
    auto const checked = check_named_flow(name, width, height, 4, speed, 0.6);
    EXPECT_EQ(checked.has_value(), named_flow(name, width, height, 4, speed, 0.6).has_value());
    return checked ? "" : to_text(checked.error());
  };
  using testing::HasSubstr;
  EXPECT_THAT(text("cavity", 8, 8, 0.2),
              HasSubstr("E0568: a wall that moves at 0.2 cells a step, Mach 0.346"));
  EXPECT_THAT(text("channel", 8, 8, 0.2), HasSubstr("E0568: a channel that flows at 0.2 cells a step"));
  EXPECT_THAT(text("vortices", 8, 8, -0.2), HasSubstr("E0568: vortices that turn at 0.2 cells a step"));
  EXPECT_THAT(text("vortices", 8, 8, std::nan("")), HasSubstr("E0568: vortices that turn at nan"));
  EXPECT_THAT(text("storm", 8, 8, 0.1), HasSubstr("E0568: no flow has the name storm"));
  EXPECT_EQ(text("vortices", 64, 64, 0.1), "");
  EXPECT_THAT(text("vortices", 256, 64, 0.1), HasSubstr("E0568: a flow that starts at 0."))
      << "a long box has fast vortices";
}

TEST(LatticeBoltzmannRefusal, Fields) {
  Problem p{4, 4, 4};
  p.cells.resize(63);
  std::string const words =
      "error E0568: fields of another size than the box of 64 cells\n   hint: give a value for each cell, x "
      "first, or none";
  expect_refused(p, words);
  p.cells.clear(), p.velocity[1].resize(65);
  expect_refused(p, words);
  p.velocity[1].clear(), p.density.assign(64, 1), p.density[5] = 3;
  expect_refused(
      p, "error E0568: a density of 3 at the start\n   hint: scale it: in lattice units it is about 1");
}

}  // namespace
}  // namespace tessera::lattice_boltzmann
