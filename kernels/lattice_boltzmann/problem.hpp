// SPDX-License-Identifier: Apache-2.0
// A flow in a box of cells: what the lattice Boltzmann kernels compute. In lattice units: a cell is 1 long, a
// step takes 1, density is about 1.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <tessera/diagnostic.hpp>
#include <vector>

#include "kernels/lattice_boltzmann/cell.hpp"

namespace tessera::lattice_boltzmann {

/// What is behind a face of the box.
enum class Face : std::uint8_t {
  periodic,  ///< the opposite face, which is periodic, too
  wall,      ///< at rest, half a cell beyond the outermost ones (half-way bounce-back)
  lid,       ///< the same, moving with Problem::lid
};

/// What a cell is.
enum class Cell : std::uint8_t { fluid, wall, lid };

/// Cell (x, y, z) is number x + width * (y + height * z) of all that is given for each cell.
struct Problem {
  int width = 64, height = 64, depth = 64;          ///< cells along x, y and z
  double tau = 0.6;                                 ///< relaxation time; the viscosity is (tau - 1/2) / 3
  double force[3] = {};                             ///< on the fluid in a cell, per step
  double lid[3] = {};                               ///< velocity of walls that move, along their surface
  std::array<Face, 6> faces = {};                   ///< at x = 0, x = width, y = 0, ...
  std::vector<Cell> cells = {};                     ///< empty: all are fluid
  std::vector<float> density = {};                  ///< at the start; empty: 1
  std::array<std::vector<float>, 3> velocity = {};  ///< at the start; empty: at rest

  long long size() const { return 1LL * width * height * depth; }
  bool operator==(Problem const&) const = default;
};

constexpr int k_most_edge = 4096;
constexpr long long k_most_cells = 1LL << 31;
constexpr double k_most_mach = 0.3;

/// Links of a cell to walls: bit i is population i, which bounces back from there in place of coming from a
/// neighbour.
struct Links {
  std::uint32_t walls = 0;
  std::uint32_t lids = 0;  ///< of these, to walls that move
  bool operator==(Links const&) const = default;
};
constexpr std::uint32_t k_solid = 1u << 31;  ///< in Links::walls: no fluid here

/// Of each cell; empty where there is no wall.
std::vector<Links> links_of(Problem const& problem);

/// Refuses (E0568) boxes without cells or with too many, tau that is not above 1/2, speeds above Mach 0.3, a
/// periodic face opposite to a wall, a lid that does not move along its face, and fields of another size than
/// the box.
Expected<void> check_problem(Problem const& problem);
/// Its part that is about the box and its faces.
Expected<void> check_box(Problem const& problem);

template <class Real>
Relaxation<Real> relaxation_of(Problem const& problem) {
  return relaxation_of<Real>(problem.tau, problem.force, problem.lid);
}

/// "a box of 128x128x128 cells, tau 0.6"
std::string to_string(Problem const& problem);

/// Fluid in a box of walls, the one at the upper end of y moving along x: a driven cavity.
Problem cavity(int width, int height, int depth, double speed, double tau);
Problem driven_cavity(int edge, double speed, double reynolds);
/// Vortices that decay, the same at all z, in a periodic box: speed at the start.
Problem taylor_green(int width, int height, int depth, double speed, double tau);
/// Fluid between two walls at the ends of y, driven along x so that it reaches `speed` in the middle.
Problem channel(int width, int height, int depth, double speed, double tau);

/// What the command line names: "vortices", "cavity" or "channel". Refuses (E0568) other names and what
/// check_problem() refuses; makes fields of a plane at most.
Expected<void> check_named_flow(std::string const& name, int width, int height, int depth, double speed,
                                double tau);
/// The same, and then the flow.
Expected<Problem> named_flow(std::string const& name, int width, int height, int depth, double speed,
                             double tau);

}  // namespace tessera::lattice_boltzmann
