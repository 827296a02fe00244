// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/vtk.hpp"

#include <gmock/gmock.h>

namespace tessera::lattice_boltzmann {
namespace {

TEST(LatticeBoltzmannVtk, HasAHeaderAndNumbersWithTheirHighestByteFirst) {
  Problem const problem{2, 1, 1};
  auto const text = vtk_of(problem, {{1, 0.5f}, {{-2, 0}, {0, 0}, {0, 4}}});
  std::string const header =
      "# vtk DataFile Version 3.0\na box of 2x1x1 cells, tau 0.6\nBINARY\nDATASET STRUCTURED_POINTS\n"
      "DIMENSIONS 2 1 1\nORIGIN 0.5 0.5 0.5\nSPACING 1 1 1\nPOINT_DATA 2\nSCALARS density float 1\n"
      "LOOKUP_TABLE default\n";
  auto const number = [](unsigned char high, unsigned char next) {
    return std::string{static_cast<char>(high), static_cast<char>(next), 0, 0};
  };
  auto const zero = number(0, 0);
  EXPECT_EQ(text, header + number(0x3F, 0x80) + number(0x3F, 0) + "\nVECTORS velocity float\n" +
                      number(0xC0, 0) + zero + zero + zero + zero + number(0x40, 0x80) + "\n");
}

}  // namespace
}  // namespace tessera::lattice_boltzmann
