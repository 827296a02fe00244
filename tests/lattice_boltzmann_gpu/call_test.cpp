// SPDX-License-Identifier: Apache-2.0
// What LatticeBoltzmann::make() refuses before it asks for a GPU (E0568, E0569).
#include <gmock/gmock.h>

#include "kernels/lattice_boltzmann/lattice_boltzmann.hpp"

namespace tessera::lattice_boltzmann {
namespace {

TEST(LatticeBoltzmannCall, ProblemsAreLookedAtFirst) {
  for (auto const& problem : {Problem{0, 8, 8}, Problem{8, 8, 8, 0.5}, driven_cavity(16, 0.2, 100)}) {
    auto const made = LatticeBoltzmann::make(problem);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().front().code, "E0568");
  }
}

TEST(LatticeBoltzmannCall, CutsAreLookedAtFirst) {
  Options options;
  options.cut = ChipCut{{8, 8, 8}, {2, 0, 2}};
  auto const made = LatticeBoltzmann::make(Problem{8, 8, 8}, options);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().front().code, "E0569");
}

}  // namespace
}  // namespace tessera::lattice_boltzmann
