// SPDX-License-Identifier: Apache-2.0
// A tile's filters times its pixels, slot by slot of both rings. A pixel's column of the matrix instruction
// is a line of the patch, whichever tap of the filter it is multiplied by: the tap is an offset in lines.
#pragma once

#include <tessera/run/roles.cuh>

#include "kernels/convolution/stage.hpp"
#include "kernels/few_tokens/warp_multiply.cuh"

namespace tessera::convolution {

/// Where a warp stands among those that share a tile.
struct WarpPlace {
  int row, column, depth;

  __device__ static WarpPlace of(Cut const& cut, int warp) {
    int const rest = warp / cut.row_warps;
    return {warp % cut.row_warps, rest % cut.column_warps, rest / cut.column_warps};
  }
};

/// Sums of a warp: of 16 * RowTiles channels and 8 * ColumnTiles pixels, as in multiply_warp().
template <int RowTiles, int ColumnTiles>
using WarpSums = float[RowTiles][ColumnTiles][4];

/// `Steps`: of 16 channels, of each tap's four, that the warp takes. Every warp waits for every slot and
/// gives it back. `at_first()`: when the first pixels are there.
template <class Element, int RowTiles, int ColumnTiles, int Steps, class Computer, class AtFirst>
__device__ __forceinline__ void multiply_slots(ConvStage const& p, Computer& computer, WarpPlace const& at,
                                               Column const* columns, WarpSums<RowTiles, ColumnTiles>& sums,
                                               AtFirst const& at_first) {
  constexpr int pairs = (ColumnTiles + 1) / 2;
  int const lane = static_cast<int>(threadIdx.x) % 32;
  int const taps = p.taps(), per_slot = p.cut.taps_per_slot, kernel = p.kernel;
  int const next_row = p.patch_width() - kernel;
  unsigned const tap_bytes = k_line * p.cut.rows();
  unsigned const first_step = at.depth % 4 * Steps * 32;
  // Eight warps of the depth: those of one half take every other tap.
  bool const every_other = p.cut.depth_warps == 8;
  int const row = at.row * 16 * RowTiles + lane % 16;
  unsigned const of_row = row * k_line + ((lane / 16 ^ (row & 7)) * 16);
  unsigned const half = lane / 8 % 2;
  int line[pairs];
#pragma unroll
  for (int j = 0; j < pairs; ++j) {
    int const column = at.column * 8 * ColumnTiles + 16 * j + lane % 8 + lane / 16 * 8;
    line[j] = columns[min(column, p.cut.columns() - 1)].line;
  }
  int tap_of_all = at.depth / 4;
#pragma unroll 1
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    RingPlace const late = computer.next_late_slot();
    computer.wait_late_slot(late);
    if (chunk == 0) at_first();
    unsigned const patch = computer.late_slot(late);
    int offset = 0, column = 0;  // of the tap, in lines
#pragma unroll 1
    for (int first = 0; first < taps; first += per_slot) {
      RingPlace const place = computer.next_slot();
      computer.wait_slot(place);
      unsigned filters = computer.slot(place) + of_row;
#pragma unroll 1
      for (int t = 0; t < per_slot; ++t) {
        if (!every_other || tap_of_all++ % 2 == 0) {
          unsigned pixels[pairs];
#pragma unroll
          for (int j = 0; j < pairs; ++j) {
            int const at_line = line[j] + offset;
            pixels[j] = patch + at_line * k_line + ((half ^ (at_line & 7)) * 16);
          }
#pragma unroll
          for (int s = 0; s < Steps; ++s) {
            unsigned const step = first_step + 32 * s;  // in both slots, within a line
            unsigned a[RowTiles][4], b[pairs][4];
#pragma unroll
            for (int i = 0; i < RowTiles; ++i)
              few_tokens::load_matrices(a[i], (filters + i * 16 * k_line) ^ step);
#pragma unroll
            for (int j = 0; j < pairs; ++j) few_tokens::load_matrices(b[j], pixels[j] ^ step);
#pragma unroll
            for (int i = 0; i < RowTiles; ++i)
#pragma unroll
              for (int j = 0; j < ColumnTiles; ++j)
                few_tokens::multiply_warp<Element>(sums[i][j], a[i], b[j / 2][j % 2 * 2],
                                                   b[j / 2][j % 2 * 2 + 1]);
          }
        }
        filters += tap_bytes;
        ++offset;
        if (++column == kernel) column = 0, offset += next_row;
      }
      computer.release_slot(place);
    }
    computer.release_late_slot(late);
  }
}

}  // namespace tessera::convolution
