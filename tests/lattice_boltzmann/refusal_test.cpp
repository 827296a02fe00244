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
