// SPDX-License-Identifier: Apache-2.0
// A square cavity whose lid drags the fluid along, and the table of Ghia, Ghia and Shin (J. Comput. Phys. 48,
// 1982): velocity along the lid, over the lid's, on the line through the middle.
#pragma once

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "kernels/lattice_boltzmann/problem.hpp"

namespace tessera::lattice_boltzmann {

struct GhiasPoint {
  double height, velocity;
};
constexpr GhiasPoint k_at_100[] = {
    {0.9766, 0.84123},  {0.9688, 0.78871},  {0.9609, 0.73722},  {0.9531, 0.68717},  {0.8516, 0.23151},
    {0.7344, 0.00332},  {0.6172, -0.13641}, {0.5000, -0.20581}, {0.4531, -0.21090}, {0.2813, -0.15662},
    {0.1719, -0.10150}, {0.1016, -0.06434}, {0.0703, -0.04775}, {0.0625, -0.04192}, {0.0547, -0.03717}};
constexpr GhiasPoint k_at_400[] = {
    {0.9766, 0.75837},  {0.9688, 0.68439},  {0.9609, 0.61756},  {0.9531, 0.55892},  {0.8516, 0.29093},
    {0.7344, 0.16256},  {0.6172, 0.02135},  {0.5000, -0.11477}, {0.4531, -0.17119}, {0.2813, -0.32726},
    {0.1719, -0.24299}, {0.1016, -0.14612}, {0.0703, -0.10338}, {0.0625, -0.09266}, {0.0547, -0.08186}};

/// A slice of a cavity that goes on for ever along z.
inline Problem square_cavity(int edge, int depth, double speed, double reynolds) {
  auto problem = cavity(edge, edge, depth, speed, 0.5 + 3 * speed * edge / reynolds);
  problem.faces[4] = problem.faces[5] = Face::periodic;
  return problem;
}

/// The largest difference to the table, over the lid's speed. `u`: along x, of each cell; an even edge.
template <class Real>
double off_from_ghia(Problem const& problem, std::vector<Real> const& u, std::span<GhiasPoint const> table) {
  int const edge = problem.width;
  // Between the two columns in the middle; between the middles of cells, or a wall and the first of them.
  auto const at_row = [&](int y) {
    if (y < 0) return 0.0;
    if (y >= edge) return 1.0;
    auto const n = static_cast<std::size_t>(edge / 2 + edge * y);
    return (static_cast<double>(u[n - 1]) + static_cast<double>(u[n])) / 2 / problem.lid[0];
  };
  auto const middle = [&](int y) { return y < 0 ? 0.0 : y >= edge ? 1.0 : (y + 0.5) / edge; };
  double most = 0;
  for (auto const& point : table) {
    auto const below = static_cast<int>(std::floor(point.height * edge - 0.5));
    double const share = (point.height - middle(below)) / (middle(below + 1) - middle(below));
    double const found = at_row(below) * (1 - share) + at_row(below + 1) * share;
    most = std::max(most, std::abs(found - point.velocity));
  }
  return most;
}

}  // namespace tessera::lattice_boltzmann
