// SPDX-License-Identifier: Apache-2.0
// A step of a cell whose populations stay where they are: in place, by two kinds of steps in turns. A cell
// reads a population from one place for each direction i, and stores the population of the opposite direction
// there. In a local step these are its own places; in a step that reaches out they are those of its
// neighbours, in which their local step has left what goes to it. So no cell touches a place of another in
// the same step, and all may go in any order.
#pragma once

#include "kernels/lattice_boltzmann/chip_tables.hpp"

namespace tessera::lattice_boltzmann {

struct ChipStrides {
  int row, plane;  ///< in cells
};

/// Where a cell's populations come from: in a local step its own places.
struct LocalPlaces {
  TESSERA_HOST_DEVICE float& of(float* cell, int i) const { return cell[i * k_slot]; }
};
/// Of a cell with others of its block, and fluid, all around.
struct ReachedPlaces {
  ChipStrides strides;
  TESSERA_HOST_DEVICE float& of(float* cell, int i) const {
    if (i == 0) return cell[0];
    return cell[opposite(i) * k_slot - velocity_x(i) - velocity_y(i) * strides.row -
                velocity_z(i) * strides.plane];
  }
};
/// Of a cell beside a wall: `own` are those that come from walls and from other blocks.
struct AnyPlaces {
  ChipStrides strides;
  unsigned own;
  TESSERA_HOST_DEVICE float& of(float* cell, int i) const {
    return (own >> i & 1) != 0 ? LocalPlaces{}.of(cell, i) : ReachedPlaces{strides}.of(cell, i);
  }
};
/// Of a cell of the rim.
struct RimPlaces {
  ReachRow row;
  TESSERA_HOST_DEVICE float& of(float* cell, int i) const {
    return *reinterpret_cast<float*>(reinterpret_cast<char*>(cell) + row.bytes[i]);
  }
};
/// Of a cell of the rim in a cluster, whose blocks' memories are reached by addresses: `own` as in AnyPlaces,
/// and in `row` ranks are distances between memories. The row stays where it is: few registers hold it.
struct ClusterPlaces {
  ReachRow const* row;
  unsigned own;
  /// In bytes from the cell on; `copy` is of the row.
  TESSERA_HOST_DEVICE int way(ReachRow const& copy, int i) const {
    return (own >> i & 1) != 0 ? 4 * i * k_slot : copy.bytes[i];
  }
  float& of(float* cell, int i) const {
    return *reinterpret_cast<float*>(reinterpret_cast<char*>(cell) + way(*row, i));
  }
};

template <class Places>
TESSERA_HOST_DEVICE inline void scatter(float* cell, Places const& places, float const (&f)[k_directions]) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int i = 0; i < k_directions; ++i) places.of(cell, i) = f[opposite(i)];
}
template <class Places>
TESSERA_HOST_DEVICE inline void step_chip_cell(float* cell, Places const& places, unsigned lids,
                                               Relaxation<float> const& of) {
  float f[k_directions];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int i = 0; i < k_directions; ++i) f[i] = places.of(cell, i);
  add_lids(lids, of, f);
  collide(f, of);
  scatter(cell, places, f);
}

}  // namespace tessera::lattice_boltzmann
