// SPDX-License-Identifier: Apache-2.0
// multiply_slots() and multiply_slots_wide() for 3x3 filters of which a slot has a row: taps are unrolled,
// and of warpgroups one row's instructions are on their way while the next row's are issued.
#pragma once

#include "kernels/convolution/layer_rings.cuh"
#include "kernels/convolution/multiply_wide.cuh"

namespace tessera::convolution {

template <class Element, int RowTiles, int ColumnTiles, int Steps, class AtFirst>
__device__ __forceinline__ void multiply_three(ConvStage const& p, LayerRings& rings, WarpPlace const& at,
                                               Column const* columns, WarpSums<RowTiles, ColumnTiles>& sums,
                                               AtFirst const& at_first) {
  constexpr int pairs = (ColumnTiles + 1) / 2;
  int const lane = static_cast<int>(threadIdx.x) % 32;
  int const width = p.patch_width(), chunks = p.chunks;
  unsigned const tap_bytes = k_line * p.cut.rows();
  unsigned const first_step = at.depth % 4 * Steps * 32;
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
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    RingPlace const late = rings.next_late_slot();
    rings.wait_late_slot(late);
    if (chunk == 0) at_first();
    unsigned const patch = rings.late_slot(late);
#pragma unroll 1
    for (int filter_row = 0; filter_row < 3; ++filter_row) {
      RingPlace const place = rings.next_slot();
      rings.wait_slot(place);
      unsigned const filters = rings.slot(place) + of_row;
      int const offset = filter_row * width;
      bool const odd = (filter_row + at.depth / 4) % 2 != 0;  // 9 chunk taps before, of all taps 3 a row
#pragma unroll
      for (int t = 0; t < 3; ++t) {
        if (every_other && (t % 2 != 0) != (odd != (chunk % 2 != 0))) continue;
        unsigned pixels[pairs];
#pragma unroll
        for (int j = 0; j < pairs; ++j) {
          int const at_line = line[j] + offset + t;
          pixels[j] = patch + at_line * k_line + ((half ^ (at_line & 7)) * 16);
        }
#pragma unroll
        for (int s = 0; s < Steps; ++s) {
          unsigned const step = first_step + 32 * s;
          unsigned a[RowTiles][4], b[pairs][4];
#pragma unroll
          for (int i = 0; i < RowTiles; ++i)
            few_tokens::load_matrices(a[i], (filters + t * tap_bytes + i * 16 * k_line) ^ step);
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
      rings.release_slot(place);
    }
    rings.release_late_slot(late);
  }
}

template <class Element, int Columns, int DepthGroups, class AtFirst>
__device__ __forceinline__ void multiply_three_wide(ConvStage const& p, LayerRings& rings,
                                                    GroupPlace const& at, float (&sums)[Columns / 2],
                                                    AtFirst const& at_first) {
  namespace sm90 = skinny_sm90;
  constexpr unsigned units_of_line = k_line / 16, units_of_step = 2;
  int const chunks = p.chunks;
  unsigned const row_units = units_of_line * p.patch_width();
  unsigned const tap_units = units_of_line * p.cut.rows();
  unsigned const first_step = units_of_step * in_all_lanes(at.depth);
  unsigned const first_filter = units_of_line * 64 * in_all_lanes(at.row) + first_step;
  unsigned const first_pixel = units_of_line * p.first_line(in_all_lanes(at.column)) + first_step;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    RingPlace const late = rings.next_late_slot();
    rings.wait_late_slot(late);
    if (chunk == 0) at_first();
    unsigned pixels = sm90::operand_place(rings.late_slot(late)) + first_pixel;
    RingPlace before;
#pragma unroll
    for (int row = 0; row < 3; ++row) {
      RingPlace const place = rings.next_slot();
      rings.wait_slot(place);
      __syncwarp();
      unsigned const filters = sm90::operand_place(rings.slot(place)) + first_filter;
      sm90::multiply_fence();
#pragma unroll
      for (int t = 0; t < 3; ++t)
#pragma unroll
        for (int s = 0; s < 4; s += DepthGroups)
          sm90::Multiply<Element, Columns>::run(
              sums, sm90::operand(filters + tap_units * t + units_of_step * s),
              sm90::operand(pixels + units_of_line * t + units_of_step * s));
      sm90::multiply_commit();
      pixels += row_units;
      if (row > 0) {
        sm90::multiply_wait<1>();
        rings.release_slot(before);
      }
      before = place;
    }
    // Sums that a loop hands on are those behind the wait: else the compiler waits for each instruction.
    sm90::multiply_wait<0>();
    sm90::settle(sums);
    rings.release_slot(before);
    rings.release_late_slot(late);
  }
}

}  // namespace tessera::convolution
