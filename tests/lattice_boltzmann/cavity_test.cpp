// SPDX-License-Identifier: Apache-2.0
// A square cavity on the CPU against Ghia's tables.
#include <gmock/gmock.h>

#include "examples/10_driven_cavity/ghia.hpp"
#include "kernels/lattice_boltzmann/reference.hpp"
#include "support/cases.hpp"

namespace tessera::lattice_boltzmann {
namespace {

TEST(LatticeBoltzmannCavity, IsWithinTwoPercentOfGhiasTables) {
  auto const problem = square_cavity(32, 1, 0.1, 100);
  Reference<double> fluid(problem);
  for (int step = 0; step < support::cases(7000); ++step) fluid.step();
  auto const flow = fluid.flow();
  if (support::k_sanitized) return;  // before it is as it stays
  EXPECT_LT(off_from_ghia(problem, flow.velocity[0], Line::upright, k_u_at_100), 0.02);
  EXPECT_LT(off_from_ghia(problem, flow.velocity[1], Line::level, k_v_at_100), 0.02);
}

}  // namespace
}  // namespace tessera::lattice_boltzmann
