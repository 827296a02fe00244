// SPDX-License-Identifier: Apache-2.0
// Two steps of cells that are in memory, for one trip through it: for device code, and for the CPU's tests.
//
// A block computes a tile of the box, plane by plane along z. Some of its warps take the first step of a
// plane of the tile and of the cells around it, and keep the result on the chip (`Middle`); others take the
// second step of the tile's cells, as soon as the planes around them are there. So some compute while others
// wait for memory. Cells around the tile are computed by the neighbours as well, so that no block waits for
// another.
#pragma once

#include "kernels/lattice_boltzmann/box_cell.hpp"
#include "kernels/lattice_boltzmann/chip_block.hpp"

namespace tessera::lattice_boltzmann {

constexpr int k_trip_threads = 1024;
/// Warps that take first steps; the others take second ones.
constexpr int k_first_warps = 18, k_second_warps = k_trip_threads / 32 - k_first_warps;
constexpr int k_trips_on_sm = 1;  ///< blocks
/// An SM's memory that is shared memory, of 228 KiB, with the KiB that a block has beside it.
constexpr int k_trip_shared_percent = 57, k_trip_shared_bytes = 131 * 1024;

namespace detail {
/// For directions `first` to `first` + 15, four bits each: those before it with the same velocity along z.
TESSERA_HOST_DEVICE constexpr unsigned long long packed_layers(int first) {
  unsigned long long word = 0;
  for (int i = first; i < first + 16 && i < k_directions; ++i)
    for (int j = 0; j < i; ++j) word += velocity_z(j) == velocity_z(i) ? 1ull << (4 * (i - first)) : 0;
  return word;
}
}  // namespace detail

/// The number of direction i among those with the same velocity along z.
TESSERA_HOST_DEVICE constexpr int number_in_layer(int i) {
  constexpr unsigned long long low = detail::packed_layers(0), high = detail::packed_layers(16);
  return static_cast<int>((i < 16 ? low >> (4 * i) : high >> (4 * (i - 16))) & 15);
}
constexpr int k_up = 5, k_level = 9, k_down = 5;

/// Populations between the two steps, of a few planes: plane k is made as soon as plane k - 3 has taken its
/// second step, which needs what went up in z one plane below it, what stayed in its plane, and what went
/// down one above it. Beside walls it needs all of its own plane, as it may bounce.
template <bool Walls>
struct Middle {
  static constexpr int ups = 4, levels = 3, downs = Walls ? 3 : 2;              ///< planes
  static constexpr int words = ups * k_up + levels * k_level + downs * k_down;  ///< of a column
  /// Cells of a plane that there is room for: the rest of an SM's memory is L1, where loads on their way lie.
  static constexpr int columns = Walls ? 528 : 572;
  static constexpr int cells = 32 * k_second_warps;  ///< of the tile among them, each with a thread
  static_assert(columns <= 32 * k_first_warps, "each with a thread");
  static constexpr int bytes = columns * 4 * words;
  static_assert(bytes <= k_trip_shared_bytes, "");

  int of[3];  ///< by velocity along z: where the populations of a plane begin

  TESSERA_HOST_DEVICE static constexpr Middle planes(int down, int level, int up) {
    return {{(ups * k_up + levels * k_level + down % downs * k_down) * columns,
             (ups * k_up + level % levels * k_level) * columns, up % ups * k_up * columns}};
  }
  /// All populations of plane k.
  TESSERA_HOST_DEVICE static constexpr Middle own(int k) { return planes(k, k, k); }
  /// Those that reach the cells of plane k in the second step.
  TESSERA_HOST_DEVICE static constexpr Middle reaching(int k) { return planes(k + 1, k, k - 1); }

  TESSERA_HOST_DEVICE constexpr int at(int i, int column) const {
    return of[velocity_z(i) + 1] + number_in_layer(i) * columns + column;
  }
};

/// A block's tile, and the planes and columns of cells that it takes the first step of: one more to each
/// side.
struct TripTile {
  int first[3], size[3];  ///< of the tile in the box
  int pitch;              ///< columns from row to row

  TESSERA_HOST_DEVICE TripTile(ChipCut const& cut, int number) {
    int const at[3] = {number % cut.blocks[0], number / cut.blocks[0] % cut.blocks[1],
                       number / cut.blocks[0] / cut.blocks[1]};
    for (int a = 0; a < 3; ++a) {
      first[a] = cut.first(a, at[a]);
      size[a] = cut.first(a, at[a] + 1) - first[a];
    }
    pitch = size[0] + 2;
  }
  /// Planes that take the first step; the tile's, which take the second one, are 1 to size[2].
  TESSERA_HOST_DEVICE int planes() const { return size[2] + 2; }
  TESSERA_HOST_DEVICE int columns() const { return pitch * (size[1] + 2); }
  TESSERA_HOST_DEVICE int cells() const { return size[0] * size[1]; }  ///< of a plane of the tile
  /// In the box, around whose ends it may lie.
  TESSERA_HOST_DEVICE int plane(ChipCut const& cut, int k) const { return in_box(cut, 2, k); }
  /// x and y in the box of a column, in 16 bits each.
  TESSERA_HOST_DEVICE unsigned place(ChipCut const& cut, int column) const {
    return static_cast<unsigned>(in_box(cut, 0, column % pitch)) |
           static_cast<unsigned>(in_box(cut, 1, column / pitch)) << 16;
  }
  /// The column of a cell of the tile.
  TESSERA_HOST_DEVICE int column_of(int cell) const {
    return (cell / size[0] + 1) * pitch + cell % size[0] + 1;
  }

 private:
  TESSERA_HOST_DEVICE int in_box(ChipCut const& cut, int axis, int k) const {
    int const at = first[axis] - 1 + k;
    return at < 0 ? cut.box[axis] - 1 : at >= cut.box[axis] ? 0 : at;
  }
};

TESSERA_HOST_DEVICE inline BoxCell cell_at(BoxArguments const& box, unsigned place, int z) {
  return {box, place & 0xFFFF, place >> 16, static_cast<unsigned>(z)};
}

/// The first step of a cell, from memory. `room()` says that there is room for the result.
template <bool Walls, class From, class Room>
TESSERA_HOST_DEVICE inline void first_of_trip(BoxArguments const& box, BoxCell const& cell, From const& from,
                                              Relaxation<float> const& of, Room const& room,
                                              Middle<Walls> const& to, float* middle, int column) {
  float f[k_directions];
  bool const fluid = next_of<Walls>(box, cell, from, of, f);
  room();
  if (!fluid) return;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int i = 0; i < k_directions; ++i) middle[to.at(i, column)] = f[i];
}

/// The second one, back into memory. `own`: of its plane; `from`: what reaches it.
template <bool Walls, class To>
TESSERA_HOST_DEVICE inline void second_of_trip(BoxArguments const& box, BoxCell const& cell,
                                               Middle<Walls> const& from, Middle<Walls> const& own,
                                               float const* middle, int column, int pitch,
                                               Relaxation<float> const& of, To const& to) {
  Links const links = Walls ? links_at(box, cell.n) : Links{};
  if (Walls && (links.walls & k_solid) != 0) return;
  float f[k_directions];
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int i = 0; i < k_directions; ++i)
    f[i] = middle[from.at(i, column - velocity_x(i) - velocity_y(i) * pitch)];
  if (Walls && links.walls != 0) {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int i = 1; i < k_directions; ++i)
      if ((links.walls >> i & 1) != 0) f[i] = middle[own.at(opposite(i), column)];
    add_lids(links.lids, of, f);
  }
  collide(f, of);
  keep(cell, to, f);
}

}  // namespace tessera::lattice_boltzmann
