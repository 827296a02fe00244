// SPDX-License-Identifier: Apache-2.0
// How a box of cells is shared by blocks that keep their cells on the chip, and where two of them meet: which
// words a population goes through that leaves its block. For device code, and for the CPU's tests of it.
//
// A population that crosses a face of a block goes through a word of a plane: each side of each cut has five,
// one for each direction that crosses it, laid out as the cells of the whole box beside the cut. Where it
// crosses an edge, and so two faces, the first axis counts.
#pragma once

#include "kernels/lattice_boltzmann/cell.hpp"

namespace tessera::lattice_boltzmann {

/// Of one axis.
TESSERA_HOST_DEVICE constexpr int velocity_along(int axis, int i) {
  return axis == 0 ? velocity_x(i) : axis == 1 ? velocity_y(i) : velocity_z(i);
}

/// Sides of a block: 2 * axis, and 1 more where coordinates are highest.
constexpr int k_sides = 6;
/// Does population i enter through that side?
TESSERA_HOST_DEVICE constexpr bool enters(int side, int i) {
  return velocity_along(side / 2, i) == (side % 2 == 0 ? 1 : -1);
}
TESSERA_HOST_DEVICE constexpr unsigned entering(int side) {
  unsigned mask = 0;
  for (int i = 1; i < k_directions; ++i)
    if (enters(side, i)) mask |= 1u << i;
  return mask;
}
/// Which of a side's five planes population i goes through.
TESSERA_HOST_DEVICE constexpr int plane_of(int side, int i) {
  int number = 0;
  for (int j = 1; j < i; ++j)
    if (enters(side, j)) ++number;
  return number;
}
constexpr int k_planes = 5;

/// n / divisor, for n below 2^15.
struct SmallDivision {
  unsigned factor = 0;
  TESSERA_HOST_DEVICE static constexpr SmallDivision by(int divisor) {
    return {0x80000000u / static_cast<unsigned>(divisor) + 1};
  }
  TESSERA_HOST_DEVICE constexpr int operator()(int n) const {
    return static_cast<int>(static_cast<unsigned long long>(2u * static_cast<unsigned>(n)) * factor >> 32);
  }
};

/// The box and its cuts.
struct ChipCut {
  int box[3] = {1, 1, 1};     ///< cells
  int blocks[3] = {1, 1, 1};  ///< along each axis
  bool odd_pitch = false;     ///< rows are padded, so that columns lie in different banks of shared memory

  TESSERA_HOST_DEVICE constexpr int count() const { return blocks[0] * blocks[1] * blocks[2]; }
  TESSERA_HOST_DEVICE constexpr int first(int axis, int block) const {
    return static_cast<int>(1LL * block * box[axis] / blocks[axis]);
  }
  TESSERA_HOST_DEVICE constexpr int area(int axis) const {
    return axis == 0 ? box[1] * box[2] : axis == 1 ? box[0] * box[2] : box[0] * box[1];
  }
  /// Of the planes that block `block` along an axis reads at a side of that axis.
  TESSERA_HOST_DEVICE constexpr int first_word(int axis, int block, int high) const {
    int before = 0;
    for (int a = 0; a < axis; ++a) before += 2 * k_planes * blocks[a] * area(a);
    return before + (2 * block + high) * k_planes * area(axis);
  }
  TESSERA_HOST_DEVICE constexpr int words() const { return first_word(3, 0, 0); }
  /// Cells of the largest block, padding included.
  TESSERA_HOST_DEVICE constexpr int most_cells() const {
    int size[3] = {};
    for (int a = 0; a < 3; ++a) size[a] = (box[a] + blocks[a] - 1) / blocks[a];
    return pitch(size[0]) * size[1] * size[2];
  }
  TESSERA_HOST_DEVICE constexpr int pitch(int width) const {
    return odd_pitch && width % 2 == 0 ? width + 1 : width;
  }
};

/// One block.
struct ChipBlock {
  int first[3], size[3];  ///< cells of the box
  int pitch;              ///< cells from row to row
  int read[k_sides];      ///< first word of a side's planes
  int written[k_sides];   ///< the same of the block behind that side
  int neighbour_before[3], neighbour_behind[3];
  SmallDivision by_pitch, by_height;

  TESSERA_HOST_DEVICE void set(ChipCut const& cut, int number) {
    int const at[3] = {number % cut.blocks[0], number / cut.blocks[0] % cut.blocks[1],
                       number / cut.blocks[0] / cut.blocks[1]};
    for (int a = 0; a < 3; ++a) {
      first[a] = cut.first(a, at[a]);
      size[a] = cut.first(a, at[a] + 1) - first[a];
      int const before = at[a] == 0 ? cut.blocks[a] - 1 : at[a] - 1;
      int const behind = at[a] + 1 == cut.blocks[a] ? 0 : at[a] + 1;
      neighbour_before[a] = before, neighbour_behind[a] = behind;
      read[2 * a] = cut.first_word(a, at[a], 0), read[2 * a + 1] = cut.first_word(a, at[a], 1);
      written[2 * a] = cut.first_word(a, before, 1), written[2 * a + 1] = cut.first_word(a, behind, 0);
    }
    pitch = cut.pitch(size[0]);
    by_pitch = SmallDivision::by(pitch), by_height = SmallDivision::by(size[1]);
  }

  TESSERA_HOST_DEVICE constexpr int cells() const { return size[0] * size[1] * size[2]; }
  TESSERA_HOST_DEVICE constexpr int inner(int axis) const { return size[axis] > 2 ? size[axis] - 2 : 0; }
  /// Cells that touch another block, or the box's end.
  TESSERA_HOST_DEVICE constexpr int rim() const { return cells() - inner(0) * inner(1) * inner(2); }
  TESSERA_HOST_DEVICE constexpr int number_of(int x, int y, int z) const {
    return x + pitch * (y + size[1] * z);
  }

  /// Cells in the order in which they are computed: those of the rim first, side by side.
  TESSERA_HOST_DEVICE constexpr int in_order(int k) const {
    int const plane = size[0] * size[1];
    for (int high = 0; high < 2 && high < size[2]; ++high) {
      if (k < plane) return number_of(k % size[0], k / size[0], high * (size[2] - 1));
      k -= plane;
    }
    int const rows = size[0] * inner(2);
    for (int high = 0; high < 2 && high < size[1]; ++high) {
      if (k < rows) return number_of(k % size[0], high * (size[1] - 1), 1 + k / size[0]);
      k -= rows;
    }
    int const columns = inner(1) * inner(2);
    for (int high = 0; high < 2 && high < size[0]; ++high) {
      if (k < columns) return number_of(high * (size[0] - 1), 1 + k % inner(1), 1 + k / inner(1));
      k -= columns;
    }
    return number_of(1 + k % inner(0), 1 + k / inner(0) % inner(1), 1 + k / inner(0) / inner(1));
  }

  /// Coordinates in the block of the cell with this number.
  TESSERA_HOST_DEVICE void place(int number, int (&at)[3]) const {
    int const row = by_pitch(number);
    at[0] = number - row * pitch;
    at[2] = by_height(row);
    at[1] = row - at[2] * size[1];
  }
};

/// A cell of a block's rim: where its populations come from that do not come from its own block.
struct RimCell {
  int at[3] = {};         ///< in the box
  unsigned sides = 0;     ///< which sides of the block it lies at
  unsigned crossing = 0;  ///< bit i: population i comes through a word

  /// `walls`: bit i: population i comes from a wall.
  TESSERA_HOST_DEVICE void set(ChipBlock const& block, int number, unsigned walls) {
    int inside[3];
    block.place(number, inside);
    sides = 0;
    for (int a = 0; a < 3; ++a) {
      at[a] = block.first[a] + inside[a];
      if (inside[a] == 0) sides |= 1u << (2 * a);
      if (inside[a] + 1 == block.size[a]) sides |= 2u << (2 * a);
    }
    crossing = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int side = 0; side < k_sides; ++side)
      if ((sides >> side & 1) != 0) crossing |= entering(side);
    crossing &= ~walls;
  }
};

/// Calls `visit(i, incoming, outgoing)` for each population i that comes through a word: the word that it
/// comes through, and that through which the opposite population leaves to where it came from.
template <class Visit>
TESSERA_HOST_DEVICE inline void visit_crossings(ChipCut const& cut, ChipBlock const& block,
                                                RimCell const& cell, Visit const& visit) {
  unsigned left = cell.crossing;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int side = 0; side < k_sides; ++side) {
    if ((cell.sides >> side & 1) == 0) continue;
    int const axis = side / 2, u = axis == 0 ? 1 : 0, v = axis == 2 ? 1 : 2;
    int const area = cut.area(axis), edge_u = cut.box[u], edge_v = cut.box[v];
    int const here = cell.at[u] + edge_u * cell.at[v];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int i = 1; i < k_directions; ++i) {
      if (!enters(side, i)) continue;
      if ((left >> i & 1) == 0) continue;
      // The neighbour is a cell back, on the other side of the box beyond its end.
      int there_u = cell.at[u] - velocity_along(u, i), there_v = cell.at[v] - velocity_along(v, i);
      if (velocity_along(u, i) == 1) there_u = there_u < 0 ? edge_u - 1 : there_u;
      if (velocity_along(u, i) == -1) there_u = there_u == edge_u ? 0 : there_u;
      if (velocity_along(v, i) == 1) there_v = there_v < 0 ? edge_v - 1 : there_v;
      if (velocity_along(v, i) == -1) there_v = there_v == edge_v ? 0 : there_v;
      int const other = side % 2 == 0 ? side + 1 : side - 1;
      visit(i, block.read[side] + plane_of(side, i) * area + here,
            block.written[side] + plane_of(other, opposite(i)) * area + there_u + edge_u * there_v);
    }
    left &= ~entering(side);
  }
}

}  // namespace tessera::lattice_boltzmann
