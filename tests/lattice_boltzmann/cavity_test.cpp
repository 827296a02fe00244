// SPDX-License-Identifier: Apache-2.0
// A square cavity whose lid drags the fluid along, against the table of Ghia, Ghia and Shin (J. Comput. Phys.
// 48, 1982): velocity along the lid, over the lid's, on the line through the middle.
#include <gmock/gmock.h>

#include <cmath>

#include "kernels/lattice_boltzmann/reference.hpp"

namespace tessera::lattice_boltzmann {
namespace {

struct Point {
  double height, velocity;
};
/// At Reynolds number 100.
constexpr Point k_table[] = {{0.9766, 0.84123},  {0.9688, 0.78871},  {0.9609, 0.73722},  {0.9531, 0.68717},
                             {0.8516, 0.23151},  {0.7344, 0.00332},  {0.6172, -0.13641}, {0.5000, -0.20581},
                             {0.4531, -0.21090}, {0.2813, -0.15662}, {0.1719, -0.10150}, {0.1016, -0.06434},
                             {0.0703, -0.04775}, {0.0625, -0.04192}, {0.0547, -0.03717}};

TEST(LatticeBoltzmannCavity, IsWithinTwoPercentOfGhiasTable) {
  constexpr int edge = 32;
  constexpr double speed = 0.1;
  auto problem = cavity(edge, edge, 1, speed, 0.5 + 3 * speed * edge / 100);
  problem.faces[4] = problem.faces[5] = Face::periodic;  // a square
  Reference<double> fluid(problem);
  for (int step = 0; step < 7000; ++step) fluid.step();
  auto const flow = fluid.flow();
  // Between the two columns in the middle; between the middles of cells, or a wall and the first of them.
  auto const at_row = [&](int y) {
    if (y < 0) return 0.0;
    if (y >= edge) return 1.0;
    auto const n = static_cast<std::size_t>(edge / 2 + edge * y);
    return (flow.velocity[0][n - 1] + flow.velocity[0][n]) / 2 / speed;
  };
  auto const middle = [&](int y) { return y < 0 ? 0.0 : y >= edge ? 1.0 : (y + 0.5) / edge; };
  for (auto const& point : k_table) {
    auto const below = static_cast<int>(std::floor(point.height * edge - 0.5));
    double const share = (point.height - middle(below)) / (middle(below + 1) - middle(below));
    double const found = at_row(below) * (1 - share) + at_row(below + 1) * share;
    EXPECT_NEAR(found, point.velocity, 0.02) << "at " << point.height;
  }
}

}  // namespace
}  // namespace tessera::lattice_boltzmann
