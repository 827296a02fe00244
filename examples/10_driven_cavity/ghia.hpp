// SPDX-License-Identifier: Apache-2.0
// A square cavity whose lid drags the fluid along, and the tables of Ghia, Ghia and Shin (J. Comput. Phys.
// 48, 1982): velocity on the lines through its middle, over the lid's.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "kernels/lattice_boltzmann/problem.hpp"

namespace tessera::lattice_boltzmann {

/// Places are over the edge. u: along the lid, by the height on the upright line; v: upwards, by the distance
/// from the left on the level one.
struct GhiasPoint {
  double place, velocity;
};
constexpr GhiasPoint k_u_at_100[] = {
    {0.9766, 0.84123},  {0.9688, 0.78871},  {0.9609, 0.73722},  {0.9531, 0.68717},  {0.8516, 0.23151},
    {0.7344, 0.00332},  {0.6172, -0.13641}, {0.5000, -0.20581}, {0.4531, -0.21090}, {0.2813, -0.15662},
    {0.1719, -0.10150}, {0.1016, -0.06434}, {0.0703, -0.04775}, {0.0625, -0.04192}, {0.0547, -0.03717}};
constexpr GhiasPoint k_u_at_400[] = {
    {0.9766, 0.75837},  {0.9688, 0.68439},  {0.9609, 0.61756},  {0.9531, 0.55892},  {0.8516, 0.29093},
    {0.7344, 0.16256},  {0.6172, 0.02135},  {0.5000, -0.11477}, {0.4531, -0.17119}, {0.2813, -0.32726},
    {0.1719, -0.24299}, {0.1016, -0.14612}, {0.0703, -0.10338}, {0.0625, -0.09266}, {0.0547, -0.08186}};
constexpr GhiasPoint k_v_at_100[] = {
    {0.9688, -0.05906}, {0.9609, -0.07391}, {0.9531, -0.08864}, {0.9453, -0.10313}, {0.9063, -0.16914},
    {0.8594, -0.22445}, {0.8047, -0.24533}, {0.5000, 0.05454},  {0.2344, 0.17527},  {0.2266, 0.17507},
    {0.1563, 0.16077},  {0.0938, 0.12317},  {0.0781, 0.10890},  {0.0703, 0.10091},  {0.0625, 0.09233}};
/// Without the one at 0.9063, -0.23827: its neighbours are -0.22847 and -0.44993, so that it is a misprint.
constexpr GhiasPoint k_v_at_400[] = {
    {0.9688, -0.12146}, {0.9609, -0.15663}, {0.9531, -0.19254}, {0.9453, -0.22847}, {0.8594, -0.44993},
    {0.8047, -0.38598}, {0.5000, 0.05186},  {0.2344, 0.30174},  {0.2266, 0.30203},  {0.1563, 0.28124},
    {0.0938, 0.22965},  {0.0781, 0.20920},  {0.0703, 0.19713},  {0.0625, 0.18360}};

/// A slice of a cavity that goes on for ever along z.
inline Problem square_cavity(int edge, int depth, double speed, double reynolds) {
  auto problem = cavity(edge, edge, depth, speed, 0.5 + 3 * speed * edge / reynolds);
  problem.faces[4] = problem.faces[5] = Face::periodic;
  return problem;
}

enum class Line { upright, level };

/// Velocity at a place of a line through the middle, over the lid's. `cells`: u for the upright line, v for
/// the level one, of each cell; an even edge.
template <class Real>
double on_line(Problem const& problem, std::vector<Real> const& cells, Line line, double place) {
  int const edge = problem.width;
  // Between the two rows or columns in the middle; between the middles of cells, or a wall and the first of
  // them.
  auto const velocity = [&](int k) {
    if (k < 0) return 0.0;
    if (k >= edge) return line == Line::upright ? 1.0 : 0.0;
    int const middle = edge / 2;
    auto const one =
        static_cast<std::size_t>(line == Line::upright ? middle - 1 + edge * k : k + edge * (middle - 1));
    auto const other = one + static_cast<std::size_t>(line == Line::upright ? 1 : edge);
    return (static_cast<double>(cells[one]) + static_cast<double>(cells[other])) / 2 / problem.lid[0];
  };
  auto const at = [&](int k) { return k < 0 ? 0.0 : k >= edge ? 1.0 : (k + 0.5) / edge; };
  auto const before = static_cast<int>(std::floor(place * edge - 0.5));
  double const share = (place - at(before)) / (at(before + 1) - at(before));
  return velocity(before) * (1 - share) + velocity(before + 1) * share;
}

/// The largest difference to a table, over the lid's speed.
template <class Real>
double off_from_ghia(Problem const& problem, std::vector<Real> const& cells, Line line,
                     std::span<GhiasPoint const> table) {
  double most = 0;
  for (auto const& point : table)
    most = std::max(most, std::abs(on_line(problem, cells, line, point.place) - point.velocity));
  return most;
}

}  // namespace tessera::lattice_boltzmann
