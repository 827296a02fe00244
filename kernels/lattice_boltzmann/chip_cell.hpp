// SPDX-License-Identifier: Apache-2.0
// A step of a cell whose populations stay where they are: in place, by two kinds of steps in turns. A cell
// reads a population from one place for each direction i, and stores the population of the opposite direction
// there. In a local step these are its own places; in a step that reaches out they are those of its
// neighbours, in which their local step has left what goes to it. So no cell touches a place of another in
// the same step, and all may go in any order.
#pragma once

#include "kernels/lattice_boltzmann/chip_block.hpp"

namespace tessera::lattice_boltzmann {

/// Words between the places of two directions.
constexpr int k_slot = 2960;

struct ChipStrides {
  int row, plane;  ///< in cells
};

/// From a cell to where its population i comes from, in places.
template <bool Reaches>
TESSERA_HOST_DEVICE constexpr int place_of(int i, ChipStrides const& strides) {
  if (!Reaches || i == 0) return i * k_slot;
  return opposite(i) * k_slot - velocity_x(i) - velocity_y(i) * strides.row - velocity_z(i) * strides.plane;
}

/// Populations that go through the cell's own places: in a step that reaches out those that come from a wall
/// or from another block, in a local step all.
TESSERA_HOST_DEVICE constexpr unsigned own_places(bool reaches, unsigned crossing, unsigned walls) {
  return reaches ? crossing | walls : ~0u;
}
TESSERA_HOST_DEVICE constexpr int place_of_any(int i, ChipStrides const& strides, unsigned own) {
  return (own >> i & 1) != 0 ? i * k_slot : place_of<true>(i, strides);
}

/// A cell inside of a block, with fluid all around.
template <bool Reaches>
TESSERA_HOST_DEVICE inline void step_inside(float* cell, ChipStrides const& strides,
                                            Relaxation<float> const& of) {
  float f[k_directions];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int i = 0; i < k_directions; ++i) f[i] = cell[place_of<Reaches>(i, strides)];
  collide(f, of);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int i = 0; i < k_directions; ++i) cell[place_of<Reaches>(i, strides)] = f[opposite(i)];
}

/// Populations of any cell that come from its own block, bounces among them.
TESSERA_HOST_DEVICE inline void gather(float const* cell, ChipStrides const& strides, unsigned own,
                                       unsigned lids, Relaxation<float> const& of, float (&f)[k_directions]) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int i = 0; i < k_directions; ++i) f[i] = cell[place_of_any(i, strides, own)];
  add_lids(lids, of, f);
}
TESSERA_HOST_DEVICE inline void scatter(float* cell, ChipStrides const& strides, unsigned own,
                                        float const (&f)[k_directions]) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int i = 0; i < k_directions; ++i) cell[place_of_any(i, strides, own)] = f[opposite(i)];
}

}  // namespace tessera::lattice_boltzmann
