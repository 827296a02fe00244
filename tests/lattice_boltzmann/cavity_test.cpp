// SPDX-License-Identifier: Apache-2.0
// A square cavity on the CPU against Ghia's table.
#include <gmock/gmock.h>

#include "kernels/lattice_boltzmann/reference.hpp"
#include "lattice_boltzmann/ghia.hpp"

namespace tessera::lattice_boltzmann {
namespace {

TEST(LatticeBoltzmannCavity, IsWithinTwoPercentOfGhiasTable) {
  auto const problem = square_cavity(32, 1, 0.1, 100);
  Reference<double> fluid(problem);
  for (int step = 0; step < 7000; ++step) fluid.step();
  EXPECT_LT(off_from_ghia(problem, fluid.flow().velocity[0], k_at_100), 0.02);
}

}  // namespace
}  // namespace tessera::lattice_boltzmann
