// SPDX-License-Identifier: Apache-2.0
// A flow that has everything: what variants are compared by.
#pragma once

#include <random>

#include "kernels/lattice_boltzmann/problem.hpp"

namespace tessera::lattice_boltzmann {

/// A box with walls, obstacles, a lid and a force, and something random in it.
inline Problem rough(int width, int height, int depth) {
  Problem p{width, height, depth, 0.57};
  p.faces[2] = Face::wall, p.faces[3] = Face::lid;
  p.lid[0] = 0.05, p.lid[2] = -0.02;
  p.force[0] = 1e-5, p.force[1] = -2e-5, p.force[2] = 3e-5;
  std::mt19937 random(7);
  std::uniform_real_distribution<float> value(-0.03f, 0.03f);
  auto const size = static_cast<std::size_t>(p.size());
  p.cells.resize(size), p.density.resize(size);
  for (auto& component : p.velocity) component.resize(size);
  for (std::size_t n = 0; n < size; ++n) {
    p.cells[n] = random() % 11 == 0 ? Cell::wall : random() % 37 == 0 ? Cell::lid : Cell::fluid;
    p.density[n] = 1 + value(random);
    for (auto& component : p.velocity) component[n] = value(random);
  }
  return p;
}

}  // namespace tessera::lattice_boltzmann
