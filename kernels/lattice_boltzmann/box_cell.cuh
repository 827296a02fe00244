// SPDX-License-Identifier: Apache-2.0
// A cell of a lattice in device memory, and its neighbours.
#pragma once

#include "kernels/lattice_boltzmann/in_memory.hpp"

namespace tessera::lattice_boltzmann {

struct BoxCell {
  unsigned n;
  unsigned x[3], y[3], z[3];  ///< of the neighbours before, the cell, and behind, in cells of the box

  __device__ BoxCell(BoxArguments const& box, unsigned number)
      : BoxCell(box, number % static_cast<unsigned>(box.width),
                number / static_cast<unsigned>(box.width) % static_cast<unsigned>(box.height),
                number / static_cast<unsigned>(box.width) / static_cast<unsigned>(box.height)) {}
  __device__ BoxCell(BoxArguments const& box, unsigned at_x, unsigned at_y, unsigned at_z) {
    unsigned const width = static_cast<unsigned>(box.width), height = static_cast<unsigned>(box.height),
                   depth = static_cast<unsigned>(box.depth), plane = width * height;
    around(at_x, width, 1, x), around(at_y, height, width, y), around(at_z, depth, plane, z);
    n = x[1] + y[1] + z[1];
  }
  /// The neighbour that population i goes to.
  __device__ unsigned ahead(int i) const {
    return x[1 + velocity_x(i)] + y[1 + velocity_y(i)] + z[1 + velocity_z(i)];
  }
  __device__ unsigned behind(int i) const { return ahead(opposite(i)); }

 private:
  __device__ static void around(unsigned at, unsigned edge, unsigned stride, unsigned (&to)[3]) {
    to[0] = (at == 0 ? edge - 1 : at - 1) * stride;
    to[1] = at * stride;
    to[2] = (at + 1 == edge ? 0 : at + 1) * stride;
  }
};

/// What is beside a cell.
__device__ inline Links links_at(BoxArguments const& box, unsigned n) {
  if (box.kinds == nullptr) return {};
  auto const kind = box.kinds[n];
  if (kind == k_plain) return {};
  if (kind == k_no_fluid) return {k_solid, 0};
  return box.links[n];
}

__device__ inline void add_lids(unsigned lids, Relaxation<float> const& of, float (&f)[k_directions]) {
  if (lids == 0) return;
#pragma unroll
  for (int i = 1; i < k_directions; ++i)
    if ((lids >> i & 1) != 0) f[i] = f[i] + lid_adds(of, i);
}

/// One cell's step from one lattice to another.
__device__ inline void step_cell(BoxArguments const& box, BoxCell const& cell, float const* from, float* to,
                                 Relaxation<float> const& of) {
  auto const links = links_at(box, cell.n);
  if ((links.walls & k_solid) != 0) return;
  std::size_t const cells = box.cells;
  float f[k_directions];
#pragma unroll
  for (int i = 0; i < k_directions; ++i) f[i] = from[i * cells + cell.behind(i)];
  if (links.walls != 0) {
#pragma unroll
    for (int i = 1; i < k_directions; ++i)
      if ((links.walls >> i & 1) != 0) f[i] = from[opposite(i) * cells + cell.n];
    add_lids(links.lids, of, f);
  }
  collide(f, of);
#pragma unroll
  for (int i = 0; i < k_directions; ++i) to[i * cells + cell.n] = f[i];
}

/// Where a cell reads population i, and leaves the opposite one, in a step in place.
template <bool Reaches>
__device__ inline std::size_t place_in_box(BoxArguments const& box, BoxCell const& cell, int i,
                                           unsigned walls) {
  if (Reaches && (walls >> i & 1) == 0)
    return static_cast<std::size_t>(opposite(i)) * box.cells + cell.behind(i);
  return static_cast<std::size_t>(i) * box.cells + cell.n;
}

}  // namespace tessera::lattice_boltzmann
