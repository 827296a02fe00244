// SPDX-License-Identifier: Apache-2.0
// How a box of cells is shared by blocks that keep their cells on the chip, and where two of them meet: what
// a block shows its neighbours, and which cells of it are for whom. For device code, and for the CPU's tests.
//
// A block shows the outermost cells of each side in a plane: what leaves through that side, five populations
// a cell. Who is behind the side takes from it what arrives at his cells; what leaves through two sides at
// once is taken from the plane of the first axis.
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
constexpr int k_words = 5;  ///< populations that leave a cell through a side

/// The axes along a side.
TESSERA_HOST_DEVICE constexpr int axis_u(int side) { return side / 2 == 0 ? 1 : 0; }
TESSERA_HOST_DEVICE constexpr int axis_v(int side) { return side / 2 == 2 ? 1 : 2; }
/// Word k of what leaves through a side: straight ahead, and a cell up or down along u, along v.
TESSERA_HOST_DEVICE constexpr int step_u(int k) { return k == 1 ? 1 : k == 2 ? -1 : 0; }
TESSERA_HOST_DEVICE constexpr int step_v(int k) { return k == 3 ? 1 : k == 4 ? -1 : 0; }
TESSERA_HOST_DEVICE constexpr int leaving(int side, int k) {
  for (int i = 1; i < k_directions; ++i)
    if (velocity_along(side / 2, i) == (side % 2 == 0 ? -1 : 1) &&
        velocity_along(axis_u(side), i) == step_u(k) && velocity_along(axis_v(side), i) == step_v(k))
      return i;
  return 0;
}

/// Blocks of a cluster at most: what every GPU with clusters has (more is a matter of the GPU).
constexpr int k_cluster_blocks = 8;

/// The box and its cuts.
struct ChipCut {
  int box[3] = {1, 1, 1};     ///< cells
  int blocks[3] = {1, 1, 1};  ///< along each axis
  int cluster[3] = {1, 1,
                    1};  ///< blocks of a cluster along each axis, which divide them; 1, 1, 1: no clusters

  TESSERA_HOST_DEVICE constexpr int count() const { return blocks[0] * blocks[1] * blocks[2]; }
  TESSERA_HOST_DEVICE constexpr int cluster_blocks() const { return cluster[0] * cluster[1] * cluster[2]; }
  /// Blocks are launched cluster by cluster: where the launch's block of this number is among all.
  constexpr void launched(int number, int (&at)[3]) const {
    int rank = number % cluster_blocks(), of = number / cluster_blocks();
    for (int a = 0; a < 3; ++a) {
      int const clusters = blocks[a] / cluster[a];
      at[a] = of % clusters * cluster[a] + rank % cluster[a];
      of /= clusters, rank /= cluster[a];
    }
  }
  /// The number of a block among all, x first; one step beyond an end is at the other end.
  constexpr int number_of(int const (&at)[3]) const {
    int number = 0;
    for (int a = 2; a >= 0; --a) number = number * blocks[a] + (at[a] + blocks[a]) % blocks[a];
    return number;
  }
  constexpr int launched_number(int number) const {
    int at[3] = {};
    launched(number, at);
    return number_of(at);
  }
  /// Where the block of that rank is, of the cluster that a block of this number (of all) is in.
  constexpr void of_rank(int number, int rank, int (&at)[3]) const {
    for (int a = 0; a < 3; ++a) {
      int const own = number % blocks[a];
      at[a] = own - own % cluster[a] + rank % cluster[a];
      number /= blocks[a], rank /= cluster[a];
    }
  }
  /// The rank of block `other` in the cluster of block `at`; -1: it is in another, or there are no clusters.
  /// As in number_of(), `other` may be one step beyond an end.
  constexpr int rank_beside(int const (&at)[3], int const (&other)[3]) const {
    if (cluster_blocks() == 1) return -1;
    int rank = 0;
    for (int a = 2; a >= 0; --a) {
      int const there = (other[a] + blocks[a]) % blocks[a];
      if (there / cluster[a] != at[a] / cluster[a]) return -1;
      rank = rank * cluster[a] + there % cluster[a];
    }
    return rank;
  }
  TESSERA_HOST_DEVICE constexpr int first(int axis, int block) const {
    return static_cast<int>(1LL * block * box[axis] / blocks[axis]);
  }
  TESSERA_HOST_DEVICE constexpr int area(int axis) const {
    return axis == 0 ? box[1] * box[2] : axis == 1 ? box[0] * box[2] : box[0] * box[1];
  }
  /// Of the plane of side `high` of the blocks with this number along an axis; cells of the whole box beside
  /// it.
  TESSERA_HOST_DEVICE constexpr int first_shown(int axis, int block, int high) const {
    int before = 0;
    for (int a = 0; a < axis; ++a) before += 2 * blocks[a] * area(a);
    return before + (2 * block + high) * area(axis);
  }
  TESSERA_HOST_DEVICE constexpr int shown() const { return first_shown(3, 0, 0); }
  /// Of the largest block.
  TESSERA_HOST_DEVICE constexpr int most_cells() const {
    int size[3] = {};
    for (int a = 0; a < 3; ++a) size[a] = (box[a] + blocks[a] - 1) / blocks[a];
    return size[0] * size[1] * size[2];
  }
};

/// What a block takes through one of its sides: from the cells behind it, and from the rows and columns
/// around those, whose populations come across an edge.
struct ChipSide {
  int taken;                   ///< cells
  int size_u, size_v;          ///< of the side
  bool around_u, around_v;     ///< is something taken from beyond its ends?
  int first;                   ///< cell of the box (0, 0) in the neighbours' plane
  int origin_u, origin_v;      ///< of the side in the box
  int edge_u, edge_v;          ///< of the box
  int cell, along_u, along_v;  ///< the side's first cell in its block, and the way to the next ones

  /// Cell number t of those taken; -1 and size_u (or v) are beyond the ends.
  void at(int t, int& u, int& v) const {
    int const side = size_u * size_v;
    if (t < side) {
      v = t / size_u, u = t % size_u;
      return;
    }
    t -= side;
    if (around_u && t < 2 * size_v) {
      bool const high = t >= size_v;
      u = high ? size_u : -1, v = high ? t - size_v : t;
      return;
    }
    if (around_u) t -= 2 * size_v;
    bool const high = t >= size_u;
    u = high ? t - size_u : t, v = high ? size_v : -1;
  }
  /// Its number among all that are shown.
  int shown(int u, int v) const {
    u += origin_u, v += origin_v;
    u = u < 0 ? edge_u - 1 : u == edge_u ? 0 : u;
    v = v < 0 ? edge_v - 1 : v == edge_v ? 0 : v;
    return first + u + edge_u * v;
  }
  /// The block that the cell (u, v) of those taken is in, from the one that takes: steps along the three
  /// axes.
  void source(int number, int u, int v, int (&step)[3]) const {
    step[number / 2] = number % 2 == 0 ? -1 : 1;
    step[axis_u(number)] = u < 0 ? -1 : u >= size_u ? 1 : 0;
    step[axis_v(number)] = v < 0 ? -1 : v >= size_v ? 1 : 0;
  }
  /// Does word k of that cell go to a cell of the side?
  bool hits(int u, int v, int k) const {
    u += step_u(k), v += step_v(k);
    return u >= 0 && u < size_u && v >= 0 && v < size_v;
  }
};

/// One block.
struct ChipBlock {
  int first[3], size[3];                                 ///< cells of the box
  int stride[3];                                         ///< from cell to cell along each axis, in places
  int written[k_sides];                                  ///< its planes: the cell of the box (0, 0)
  int own[3], neighbour_before[3], neighbour_behind[3];  ///< block numbers along each axis
  ChipSide side[k_sides];

  ChipBlock(ChipCut const& cut, int number) {
    int const at[3] = {number % cut.blocks[0], number / cut.blocks[0] % cut.blocks[1],
                       number / cut.blocks[0] / cut.blocks[1]};
    for (int a = 0; a < 3; ++a) {
      first[a] = cut.first(a, at[a]);
      size[a] = cut.first(a, at[a] + 1) - first[a];
      own[a] = at[a];
      neighbour_before[a] = at[a] == 0 ? cut.blocks[a] - 1 : at[a] - 1;
      neighbour_behind[a] = at[a] + 1 == cut.blocks[a] ? 0 : at[a] + 1;
    }
    for (int s = 0; s < k_sides; ++s) {
      int const axis = s / 2, high = s % 2, u = axis_u(s), v = axis_v(s);
      written[s] = cut.first_shown(axis, own[axis], high);
      auto& one = side[s];
      one.first =
          cut.first_shown(axis, high != 0 ? neighbour_behind[axis] : neighbour_before[axis], 1 - high);
      one.size_u = size[u], one.size_v = size[v];
      one.around_u = axis == 0, one.around_v = axis != 2;
      one.taken = size[u] * size[v] + (one.around_u ? 2 * size[v] : 0) + (one.around_v ? 2 * size[u] : 0);
      one.origin_u = first[u], one.origin_v = first[v];
      one.edge_u = cut.box[u], one.edge_v = cut.box[v];
    }
    lay_out(size[0], size[0] * size[1]);
  }
  /// Places between rows and between planes: there may be some that no cell has.
  void lay_out(int row, int plane) {
    stride[0] = 1, stride[1] = row, stride[2] = plane;
    for (int s = 0; s < k_sides; ++s) {
      side[s].cell = s % 2 * (size[s / 2] - 1) * stride[s / 2];
      side[s].along_u = stride[axis_u(s)], side[s].along_v = stride[axis_v(s)];
    }
  }

  constexpr int cells() const { return size[0] * size[1] * size[2]; }
  constexpr int inner(int axis) const { return size[axis] > 2 ? size[axis] - 2 : 0; }
  /// Cells that touch another block, or the box's end.
  constexpr int rim() const { return cells() - inner(0) * inner(1) * inner(2); }
  constexpr int number_of(int x, int y, int z) const { return x + stride[1] * y + stride[2] * z; }
  constexpr int last() const { return number_of(size[0] - 1, size[1] - 1, size[2] - 1); }
  /// Coordinates in the block of the cell with this number.
  constexpr void place(int number, int (&at)[3]) const {
    at[2] = number / stride[2], at[1] = number % stride[2] / stride[1],
    at[0] = number % stride[2] % stride[1];
  }
  /// Sides of the block that a cell lies at, a bit each.
  constexpr unsigned sides_of(int number) const {
    int at[3] = {};
    place(number, at);
    unsigned sides = 0;
    for (int a = 0; a < 3; ++a) {
      if (at[a] == 0) sides |= 1u << (2 * a);
      if (at[a] + 1 == size[a]) sides |= 2u << (2 * a);
    }
    return sides;
  }
};

/// Populations that enter through any of these sides.
constexpr unsigned entering_any(unsigned sides) {
  unsigned mask = 0;
  for (int s = 0; s < k_sides; ++s)
    if ((sides >> s & 1) != 0) mask |= entering(s);
  return mask;
}

}  // namespace tessera::lattice_boltzmann
