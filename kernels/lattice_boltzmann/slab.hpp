// SPDX-License-Identifier: Apache-2.0
// A box that ranks share: each has some whole planes along z, its slab, between two planes more, one beyond
// each end. A step puts what leaves a slab into the neighbour's plane beyond its end, straight into the
// lattice that the neighbour's next step reads. For device code, and for the CPU's tests.
//
// When may a step go on? Its cells at an end read the plane beyond it: that the neighbour's step before has
// filled. And they write into the neighbour's plane what two steps before have left there: that his step
// before was the last to read. So one word for each end, which says how many steps the neighbour's cells at
// that end have done, is enough for both.
#pragma once

#include <tessera/communicate/shards.hpp>

#include "kernels/lattice_boltzmann/box_cell.hpp"

namespace tessera::lattice_boltzmann {

/// Ends of a slab: towards lower z, and towards higher.
constexpr int k_ends = 2;
TESSERA_HOST_DEVICE constexpr int other_end(int end) { return 1 - end; }

constexpr unsigned k_slab_threads = 256;  ///< of a block

/// Planes of the box that a rank has: as many as the others have, or one more or less.
constexpr RowRange planes_of(int depth, int ranks, int rank) {
  return {static_cast<int>(1LL * depth * rank / ranks), static_cast<int>(1LL * depth * (rank + 1) / ranks)};
}

/// Who is beyond an end; -1: a wall.
constexpr int neighbour_of(int ranks, int rank, int end, bool periodic) {
  int const next = end == 0 ? rank - 1 : rank + 1;
  return next >= 0 && next < ranks ? next : !periodic ? -1 : end == 0 ? ranks - 1 : 0;
}

/// A rank's box: its planes, and those beyond its ends, first and last.
constexpr BoxArguments slab_box(int width, int height, int planes) {
  BoxArguments box;
  box.width = width, box.height = height, box.depth = planes + 2;
  box.cells = static_cast<unsigned>(1LL * width * height * (planes + 2));
  return box;
}
TESSERA_HOST_DEVICE constexpr unsigned cells_of_plane(BoxArguments const& box) {
  return static_cast<unsigned>(box.width) * static_cast<unsigned>(box.height);
}

/// Where a step puts what leaves the slab through an end.
struct SlabWay {
  float* lattice = nullptr;  ///< the neighbour's that his next step reads; null: a wall is at this end
  unsigned cells = 0;        ///< of his box
  unsigned plane = 0;        ///< first cell of his plane
};

/// The cells of a block of threads: of the slab's ends, which come first, or of the inside.
struct SlabPart {
  unsigned first = 0, count = 0;
  unsigned ends = 0;  ///< bit 0: they lie at the lower end; bit 1: at the higher
};
/// Blocks that share an end.
TESSERA_HOST_DEVICE constexpr unsigned blocks_of_end(BoxArguments const& box, unsigned threads) {
  return (cells_of_plane(box) + threads - 1) / threads;
}
TESSERA_HOST_DEVICE constexpr unsigned blocks_of_slab(BoxArguments const& box, unsigned threads) {
  if (box.depth == 3) return blocks_of_end(box, threads);
  unsigned const inside = cells_of_plane(box) * static_cast<unsigned>(box.depth - 4);
  return 2 * blocks_of_end(box, threads) + (inside + threads - 1) / threads;
}
TESSERA_HOST_DEVICE constexpr SlabPart part_of(BoxArguments const& box, unsigned threads, unsigned block) {
  unsigned const plane = cells_of_plane(box), share = blocks_of_end(box, threads);
  bool const one = box.depth == 3;  // whose cells are both ends
  bool const at_end = one || block < 2 * share, high = !one && block >= share;
  unsigned const begin = threads * (at_end ? (high ? block - share : block) : block - 2 * share);
  unsigned const all = at_end ? plane : plane * static_cast<unsigned>(box.depth - 4);
  unsigned const before = plane * (!at_end ? 2u : high ? static_cast<unsigned>(box.depth - 2) : 1u);
  return {before + begin, all - begin < threads ? all - begin : threads,
          one       ? 3u
          : !at_end ? 0u
          : high    ? 2u
                    : 1u};
}

/// What leaves the slab through an end.
template <int End>
TESSERA_HOST_DEVICE inline void send_cell(BoxCell const& cell, SlabWay const& way,
                                          float const (&f)[k_directions]) {
  unsigned const n = way.plane + (cell.n - cell.z[1]);
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int i = 1; i < k_directions; ++i)
    if (velocity_z(i) == (End == 0 ? -1 : 1)) way.lattice[place_at(way.cells, i, n)] = f[i];
}

/// A cell's step, from one lattice of the slab to the other and to those of the neighbours.
TESSERA_HOST_DEVICE inline void step_slab_cell(BoxArguments const& box, unsigned n, unsigned ends,
                                               float const* from, float* to, SlabWay const (&ways)[k_ends],
                                               Relaxation<float> const& of) {
  BoxCell const cell(box, n);
  float f[k_directions];
  if (!next_of(box, cell, Planes<float const>{from, box.cells}, of, f)) return;
  keep(cell, Planes<float>{to, box.cells}, f);
  if ((ends & 1) != 0 && ways[0].lattice != nullptr) send_cell<0>(cell, ways[0], f);
  if ((ends & 2) != 0 && ways[1].lattice != nullptr) send_cell<1>(cell, ways[1], f);
}

/// A rank's own words. They count and are never reset, so that a graph can be replayed.
struct SlabWords {
  unsigned told[k_ends] = {};  ///< by the neighbour beyond an end: steps that his cells there have done
  unsigned apart[30] = {};
  unsigned long long arrived[k_ends] = {};  ///< of an end's blocks, in all steps
};
/// Steps that an end's cells have done when one of its blocks of the next step looks.
TESSERA_HOST_DEVICE constexpr unsigned steps_of(unsigned long long arrived, unsigned blocks) {
  return static_cast<unsigned>(arrived / blocks);
}

}  // namespace tessera::lattice_boltzmann
