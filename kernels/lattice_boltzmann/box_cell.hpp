// SPDX-License-Identifier: Apache-2.0
// A cell of a lattice in memory, its neighbours and its step: for device code, and for the CPU's tests.
#pragma once

#include <cstddef>

#include "kernels/lattice_boltzmann/problem.hpp"

namespace tessera::lattice_boltzmann {

constexpr unsigned k_step_threads = 256;  ///< of a block of a launch of a step, a thread a cell

struct BoxArguments {
  int width = 1, height = 1, depth = 1;
  unsigned cells = 1;
  unsigned char const* kinds = nullptr;  ///< of each cell; null: fluid without walls
  Links const* links = nullptr;          ///< where the kind is k_near_wall
};
constexpr unsigned char k_plain = 0, k_near_wall = 1, k_no_fluid = 2;

constexpr unsigned char kind_of(Links const& links) {
  return (links.walls & k_solid) != 0 ? k_no_fluid : links.walls != 0 ? k_near_wall : k_plain;
}

/// Of population i of cell n, in a lattice of so many cells.
TESSERA_HOST_DEVICE constexpr std::size_t place_at(unsigned cells, int i, unsigned n) {
  return static_cast<std::size_t>(i) * cells + n;
}

/// A lattice of so many cells.
template <class Value>
struct Planes {
  Value* first;
  unsigned cells;
  TESSERA_HOST_DEVICE Value& at(int i, unsigned n) const { return first[place_at(cells, i, n)]; }
};
/// The same with a pointer for each direction, which as an argument of a launch costs nothing to add to.
template <class Value>
struct Lattice {
  Value* of[k_directions];
  Lattice(Value* first, unsigned cells) {
    for (int i = 0; i < k_directions; ++i) of[i] = first + place_at(cells, i, 0);
  }
  TESSERA_HOST_DEVICE Value& at(int i, unsigned n) const { return of[i][n]; }
};

struct BoxCell {
  unsigned n;
  unsigned x[3], y[3], z[3];  ///< of the neighbours before, the cell, and behind, in cells of the box

  TESSERA_HOST_DEVICE BoxCell(BoxArguments const& box, unsigned number)
      : BoxCell(box, number % static_cast<unsigned>(box.width),
                number / static_cast<unsigned>(box.width) % static_cast<unsigned>(box.height),
                number / static_cast<unsigned>(box.width) / static_cast<unsigned>(box.height)) {}
  TESSERA_HOST_DEVICE BoxCell(BoxArguments const& box, unsigned at_x, unsigned at_y, unsigned at_z) {
    unsigned const width = static_cast<unsigned>(box.width), height = static_cast<unsigned>(box.height),
                   depth = static_cast<unsigned>(box.depth), plane = width * height;
    around(at_x, width, 1, x), around(at_y, height, width, y), around(at_z, depth, plane, z);
    n = x[1] + y[1] + z[1];
  }
  /// The neighbour that population i goes to.
  TESSERA_HOST_DEVICE unsigned ahead(int i) const {
    return x[1 + velocity_x(i)] + y[1 + velocity_y(i)] + z[1 + velocity_z(i)];
  }
  TESSERA_HOST_DEVICE unsigned behind(int i) const { return ahead(opposite(i)); }

 private:
  TESSERA_HOST_DEVICE static void around(unsigned at, unsigned edge, unsigned stride, unsigned (&to)[3]) {
    to[0] = (at == 0 ? edge - 1 : at - 1) * stride;
    to[1] = at * stride;
    to[2] = (at + 1 == edge ? 0 : at + 1) * stride;
  }
};

/// What is beside a cell.
TESSERA_HOST_DEVICE inline Links links_at(BoxArguments const& box, unsigned n) {
  if (box.kinds == nullptr) return {};
  auto const kind = box.kinds[n];
  if (kind == k_plain) return {};
  if (kind == k_no_fluid) return {k_solid, 0};
  return box.links[n];
}

/// What a cell has after one step from a lattice; false: there is no fluid. `Walls`: may there be any?
template <bool Walls = true, class From>
TESSERA_HOST_DEVICE inline bool next_of(BoxArguments const& box, BoxCell const& cell, From const& from,
                                        Relaxation<float> const& of, float (&f)[k_directions]) {
  auto const links = Walls ? links_at(box, cell.n) : Links{};
  if (Walls && (links.walls & k_solid) != 0) return false;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int i = 0; i < k_directions; ++i) f[i] = from.at(i, cell.behind(i));
  if (Walls && links.walls != 0) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int i = 1; i < k_directions; ++i)
      if ((links.walls >> i & 1) != 0) f[i] = from.at(opposite(i), cell.n);
    add_lids(links.lids, of, f);
  }
  collide(f, of);
  return true;
}
template <class To>
TESSERA_HOST_DEVICE inline void keep(BoxCell const& cell, To const& to, float const (&f)[k_directions]) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int i = 0; i < k_directions; ++i) to.at(i, cell.n) = f[i];
}
/// One cell's step from one lattice to another.
template <class From, class To>
TESSERA_HOST_DEVICE inline void step_cell(BoxArguments const& box, BoxCell const& cell, From const& from,
                                          To const& to, Relaxation<float> const& of) {
  float f[k_directions];
  if (next_of(box, cell, from, of, f)) keep(cell, to, f);
}

/// Where a cell reads population i, and leaves the opposite one, in a step in place.
template <bool Reaches>
TESSERA_HOST_DEVICE inline std::size_t place_in_box(BoxArguments const& box, BoxCell const& cell, int i,
                                                    unsigned walls) {
  if (Reaches && (walls >> i & 1) == 0) return place_at(box.cells, opposite(i), cell.behind(i));
  return place_at(box.cells, i, cell.n);
}

}  // namespace tessera::lattice_boltzmann
