// SPDX-License-Identifier: Apache-2.0
// The same by warpgroups: 64 channels times neighbouring lines of the patch, which a descriptor names by its
// first line. So a row of pixels has the columns between it and the next one, too, whose sums nobody uses.
#pragma once

#include "kernels/convolution/multiply.cuh"
#include "kernels/skinny_mlp_sm90/hopper.cuh"
#include "kernels/skinny_mlp_sm90/multiply_rows.cuh"

namespace tessera::convolution {

/// Where a warpgroup stands among those that share a tile.
struct GroupPlace {
  int row, column, depth;

  __device__ static GroupPlace of(Cut const& cut, int group) {
    int const rest = group / cut.row_warps;
    return {group % cut.row_warps, rest % cut.column_warps, rest / cut.column_warps};
  }
  /// Of one of its warps, which has 16 of the 64 channels.
  __device__ WarpPlace warp(int number) const { return {4 * row + number % 4, column, depth}; }
};

/// The number that all lanes have, in a way that the compiler knows it: where lanes could part, it puts waits
/// between matrix instructions.
__device__ inline int in_all_lanes(int number) { return __shfl_sync(~0u, number, 0); }

/// As multiply_slots(). Two warpgroups take turns at the matrix units: while one waits for the sums of a tap
/// the other multiplies. (Sums that are on their way over the end of a loop's body are waited for one
/// instruction at a time, by the compiler's doing.)
template <class Element, int Columns, int DepthGroups, class Computer, class AtFirst>
__device__ __forceinline__ void multiply_slots_wide(ConvStage const& p, Computer& computer,
                                                    GroupPlace const& at, float (&sums)[Columns / 2],
                                                    AtFirst const& at_first) {
  namespace sm90 = skinny_sm90;
  constexpr unsigned units_of_line = k_line / 16, units_of_step = 2;
  int const kernel = in_all_lanes(p.kernel), per_slot = in_all_lanes(p.cut.taps_per_slot);
  int const taps = kernel * kernel, chunks = in_all_lanes(p.chunks);
  int const next_row = in_all_lanes(p.patch_width()) - kernel;
  bool const rows_of_three = kernel == 3 && per_slot == 3;
  unsigned const tap_units = units_of_line * in_all_lanes(p.cut.rows());
  // Of two warpgroups that share the depth each has every other step.
  unsigned const first_step = units_of_step * in_all_lanes(at.depth);
  unsigned const first_filter = units_of_line * 64 * in_all_lanes(at.row) + first_step;
  unsigned const first_pixel = units_of_line * in_all_lanes(p.first_line(at.column)) + first_step;
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    RingPlace const late = computer.next_late_slot();
    computer.wait_late_slot(late);
    if (chunk == 0) at_first();
    unsigned pixels = sm90::operand_place(computer.late_slot(late)) + first_pixel;
    int column = 0;
    auto const tap = [&](unsigned filters, unsigned line) __attribute__((always_inline)) {
#pragma unroll
      for (int s = 0; s < 4; s += DepthGroups)
        sm90::Multiply<Element, Columns>::run(sums, sm90::operand(filters + units_of_step * s),
                                              sm90::operand(line + units_of_step * s));
    };
#pragma unroll 1
    for (int first = 0; first < taps; first += per_slot) {
      RingPlace const place = computer.next_slot();
      computer.wait_slot(place);
      __syncwarp();
      unsigned filters = sm90::operand_place(computer.slot(place)) + first_filter;
      if (rows_of_three) {
        // A slot is a row of the filter: its taps are on their way together.
        sm90::multiply_fence();
#pragma unroll
        for (int t = 0; t < 3; ++t) tap(filters + tap_units * t, pixels + units_of_line * t);
        sm90::multiply_commit();
        sm90::multiply_wait<0>();
        sm90::settle(sums);
        pixels += units_of_line * (3 + next_row);
      } else {
#pragma unroll 1
        for (int t = 0; t < per_slot; ++t) {
          sm90::multiply_fence();
          tap(filters, pixels);
          sm90::multiply_commit();
          sm90::multiply_wait<0>();
          sm90::settle(sums);
          filters += tap_units, pixels += units_of_line;
          if (++column == kernel) column = 0, pixels += units_of_line * next_row;
        }
      }
      computer.release_slot(place);
    }
    computer.release_late_slot(late);
  }
  sm90::settle(sums);
}

}  // namespace tessera::convolution
