// SPDX-License-Identifier: Apache-2.0
// From a warp's sums to results, where a layer is a launch of its own. Sums are turned in registers, so that
// a lane has four neighbouring channels of a pixel: then they are stored, or sent to the block that adds up
// all that share the tile's depth. No sum is put together twice.
#pragma once

#include <tessera/sync/cluster.cuh>

#include "kernels/convolution/layer_rings.cuh"
#include "kernels/convolution/results.cuh"

namespace tessera::convolution {

/// What turn() leaves a lane, of 16 channels by 8 pixels: the first of four channels, and which pixel.
struct LanePlace {
  int channel, column;

  __device__ static LanePlace of(int lane) {
    int const row = lane / 4, turn = row % 4;
    return {row / 4 * 4 + turn / 2 * 8, lane % 4 * 2 + turn % 2};
  }
};

/// Lanes 4, 8 and 12 apart have neighbouring channels of the same pixels, four sums each: each of them takes
/// one of the four, of all.
__device__ __forceinline__ float4 turn(float const (&s)[4]) {
  unsigned const lane = threadIdx.x % 32;
  bool const one = (lane & 4) != 0, two = (lane & 8) != 0;
  // Of two rows, sums 0 and 2 or 1 and 3.
  float const even = __shfl_xor_sync(~0u, one ? s[0] : s[1], 4);
  float const far = __shfl_xor_sync(~0u, one ? s[2] : s[3], 4);
  float const a0 = one ? even : s[0], a1 = one ? s[1] : even;
  float const b0 = one ? far : s[2], b1 = one ? s[3] : far;
  float const c0 = __shfl_xor_sync(~0u, two ? a0 : b0, 8);
  float const c1 = __shfl_xor_sync(~0u, two ? a1 : b1, 8);
  return two ? float4{c0, c1, b0, b1} : float4{a0, a1, c0, c1};
}

/// A warp's own sums are the tile's: straight to memory.
template <int RowTiles, int ColumnTiles, class Element>
__device__ __forceinline__ void store_turned(Results<Element> const& results, WarpPlace const& at,
                                             Column const* columns,
                                             WarpSums<RowTiles, ColumnTiles> const& sums) {
  constexpr int together = 4;  // residuals that are on their way at once
  auto const lane = LanePlace::of(static_cast<int>(threadIdx.x) % 32);
  Column const* const own = columns + at.column * 8 * ColumnTiles + lane.column;
#pragma unroll
  for (int i = 0; i < RowTiles; ++i) {
    int const channel = (at.row * RowTiles + i) * 16 + lane.channel;
    float4 const bias = Results<Element>::widen(results.bias(channel));
#pragma unroll
    for (int first = 0; first < ColumnTiles; first += together) {
      int pixel[together];
      uint2 before[together];
#pragma unroll
      for (int j = 0; j < together; ++j) {
        if (first + j >= ColumnTiles) continue;
        pixel[j] = own[8 * (first + j)].pixel;
        before[j] = {};
        if (pixel[j] >= 0) before[j] = results.residual(pixel[j], channel);
      }
#pragma unroll
      for (int j = 0; j < together; ++j) {
        if (first + j >= ColumnTiles) continue;
        float4 const sum = turn(sums[i][first + j]);
        if (pixel[j] >= 0)
          results.store(
              pixel[j], channel,
              Results<Element>::plus(Results<Element>::plus(sum, bias), Results<Element>::widen(before[j])));
      }
    }
  }
}

/// Where sums that share a tile's depth meet: [source][column][channel], columns Cut::pitch() apart, so that
/// lanes with neighbouring columns store to other banks. Of blocks of a cluster each adds up every so manyth
/// column.
struct MeetingSums {
  unsigned base;  ///< in shared memory, at the same place in all blocks
  int rows, pitch, columns, splits, split_shift;

  __device__ static MeetingSums of(Cut const& cut, unsigned base) {
    return {base, cut.rows(), cut.pitch(), cut.columns() / cut.splits, cut.splits, __ffs(cut.splits) - 1};
  }
  __device__ int owner(int column) const { return column & (splits - 1); }
  __device__ int own(int column) const { return column >> split_shift; }
  __device__ int tile_column(int own_column, int rank) const { return (own_column << split_shift) + rank; }
  __device__ unsigned at(int source, int own_column, int channel) const {
    return base + 4 * ((source * columns + own_column) * pitch + channel);
  }
  /// In the order of sources, so that bits do not depend on who is earlier.
  __device__ float4 sum(int sources, int own_column, int channel) const {
    float4 result = {};
    unsigned const step = 4 * columns * pitch;
    unsigned from = at(0, own_column, channel);
#pragma unroll 4
    for (int i = 0; i < sources; ++i, from += step) {
      auto const one = skinny_sm90::load_shared(from);
      result.x += one.x, result.y += one.y, result.z += one.z, result.w += one.w;
    }
    return result;
  }
};

/// `barrier`: at which each block of the cluster counts what comes.
template <int RowTiles, int ColumnTiles>
__device__ __forceinline__ void send_turned(MeetingSums const& meeting, WarpPlace const& at, int source,
                                            unsigned barrier, WarpSums<RowTiles, ColumnTiles> const& sums) {
  auto const lane = LanePlace::of(static_cast<int>(threadIdx.x) % 32);
#pragma unroll
  for (int i = 0; i < RowTiles; ++i) {
    int const channel = (at.row * RowTiles + i) * 16 + lane.channel;
#pragma unroll
    for (int j = 0; j < ColumnTiles; ++j) {
      int const column = (at.column * ColumnTiles + j) * 8 + lane.column;
      float4 const sum = turn(sums[i][j]);
      unsigned const to = meeting.at(source, meeting.own(column), channel);
      if (meeting.splits == 1) {
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(sum.x), "f"(sum.y), "f"(sum.z),
                     "f"(sum.w)
                     : "memory");
      } else {
        auto const owner = static_cast<unsigned>(meeting.owner(column));
        store_remote(in_block(to, owner), in_block(barrier, owner), sum.x, sum.y, sum.z, sum.w);
      }
    }
  }
}

}  // namespace tessera::convolution
