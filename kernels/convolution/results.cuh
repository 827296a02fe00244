// SPDX-License-Identifier: Apache-2.0
// From sums to results: of warps that share a tile's depth, of blocks of a cluster that do, and of one warp
// alone. Then bias, residual, ReLU, one rounding, and a store of four channels.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <tessera/run/roles.cuh>

#include "kernels/convolution/multiply.cuh"

namespace tessera::convolution {

/// Four channels of a pixel.
template <class Element>
struct Results {
  ConvStage const& stage;
  int first_channel;  ///< of the tile

  __device__ static float4 widen(uint2 bits) {
    Element e[4];
    __builtin_memcpy(e, &bits, sizeof e);
    return {static_cast<float>(e[0]), static_cast<float>(e[1]), static_cast<float>(e[2]),
            static_cast<float>(e[3])};
  }
  __device__ static float4 plus(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }

  /// As it lies in memory, for widen(): who needs it later does not wait for it before.
  __device__ uint2 bias(int channel) const {
    if (stage.bias == nullptr) return {};
    auto const* const from = static_cast<Element const*>(stage.bias) + first_channel + channel;
    return __ldg(reinterpret_cast<uint2 const*>(from));
  }
  /// Other SMs may have written it: past the L1. Behind the wait for what the tile reads, which was made from
  /// it. As bias().
  __device__ uint2 residual(int pixel, int channel) const {
    if (stage.residual == nullptr) return {};
    auto const* const from = static_cast<Element const*>(stage.residual) + at(pixel, channel);
    return __ldcg(reinterpret_cast<uint2 const*>(from));
  }
  __device__ void store(int pixel, int channel, float4 value) const {
    Element const e[4] = {of(value.x), of(value.y), of(value.z), of(value.w)};
    uint2 bits;
    __builtin_memcpy(&bits, e, sizeof bits);
    *reinterpret_cast<uint2*>(static_cast<Element*>(stage.output) + at(pixel, channel)) = bits;
  }

 private:
  // A NaN stays one.
  __device__ Element of(float value) const {
    return static_cast<Element>(stage.relu != 0 && value < 0 ? 0.0f : value);
  }
  __device__ long long at(int pixel, int channel) const {
    return static_cast<long long>(pixel) * stage.channels + first_channel + channel;
  }
};

/// Stores a warp's sums where lanes find four channels of a pixel side by side: [pixel][channel], `pitch`
/// floats from pixel to pixel. `to`: of the warp's first row and the first column of column tile j.
template <int RowTiles>
__device__ __forceinline__ void spread(float* to, int pitch, int tile, float const (&sums)[4]) {
  int const lane = static_cast<int>(threadIdx.x) % 32;
  float* const own = to + lane % 4 * 2 * pitch + tile * 16 + lane / 4;
  own[0] = sums[0], own[pitch] = sums[1], own[8] = sums[2], own[pitch + 8] = sums[3];
}

/// A warp's own sums are a tile's: 8 pixels at a time, through shared memory of the warp.
template <int RowTiles, int ColumnTiles, class Element>
__device__ __forceinline__ void store_own(ConvStage const& p, Results<Element> const& results,
                                          WarpPlace const& at, Column const* columns, float* scratch,
                                          WarpSums<RowTiles, ColumnTiles> const& sums) {
  constexpr int groups = 4 * RowTiles;  // of four channels
  int const lane = static_cast<int>(threadIdx.x) % 32, pitch = p.cut.pitch();
  float* const own = scratch + static_cast<int>(threadIdx.x) / 32 * 8 * pitch;
  int const channel = lane % groups * 4, first_row = at.row * 16 * RowTiles;
  float4 const bias = Results<Element>::widen(results.bias(first_row + channel));
#pragma unroll
  for (int j = 0; j < ColumnTiles; ++j) {
#pragma unroll
    for (int i = 0; i < RowTiles; ++i) spread<RowTiles>(own, pitch, i, sums[i][j]);
    __syncwarp();
    Column const* const of_tile = columns + at.column * 8 * ColumnTiles + 8 * j;
#pragma unroll
    for (int k = 0; k < RowTiles; ++k) {
      int const column = (lane + 32 * k) / groups, pixel = of_tile[column].pixel;
      auto const sum = *reinterpret_cast<float4 const*>(own + column * pitch + channel);
      if (pixel < 0) continue;
      auto const before = results.residual(pixel, first_row + channel);
      results.store(
          pixel, first_row + channel,
          Results<Element>::plus(Results<Element>::plus(sum, bias), Results<Element>::widen(before)));
    }
    __syncwarp();
  }
}

/// Sums of several warps in shared memory: [depth][column][channel].
struct JoinedSums {
  float* base;
  int pitch, columns, depth;

  __device__ float* at(int of, int column) const { return base + (of * columns + column) * pitch; }
  /// Of four channels of a column.
  __device__ float4 sum(int column, int channel) const {
    float4 result = {};
    for (int i = 0; i < depth; ++i) {
      auto const one = *reinterpret_cast<float4 const*>(at(i, column) + channel);
      result.x += one.x, result.y += one.y, result.z += one.z, result.w += one.w;
    }
    return result;
  }
};

template <int RowTiles, int ColumnTiles>
__device__ __forceinline__ void join(JoinedSums const& joined, WarpPlace const& at,
                                     WarpSums<RowTiles, ColumnTiles> const& sums) {
#pragma unroll
  for (int j = 0; j < ColumnTiles; ++j) {
    float* const to = joined.at(at.depth, at.column * 8 * ColumnTiles + 8 * j) + at.row * 16 * RowTiles;
#pragma unroll
    for (int i = 0; i < RowTiles; ++i) spread<RowTiles>(to, joined.pitch, i, sums[i][j]);
  }
}

/// Which four channels of which columns a thread finishes: columns go up from the first, by `step`.
struct ThreadShare {
  int column, channel, step;

  __device__ static ThreadShare of(int rows, int threads) {
    int const groups = rows / 4, thread = static_cast<int>(threadIdx.x);
    int const shift = __ffs(groups) - 1;  // a power of two
    return {thread >> shift, thread % groups * 4, threads >> shift};
  }
};

/// Blocks of a cluster have each a share of the depth: every one adds up its share of the columns. In the
/// order of blocks, so that bits do not depend on who is earlier. Where the sums are; behind a stall they are
/// of no use, and nobody posts them.
template <class Computer>
__device__ __forceinline__ float4 const* exchange_shares(Cut const& cut, Computer& computer,
                                                         JoinedSums const& joined, ThreadShare const& share) {
  int const rows = cut.rows(), columns = cut.columns() / cut.splits;  // of a block
  RingPlace const place = computer.next_exchange();
  unsigned const room = computer.exchange_room(place), barrier = computer.exchange_barrier(place);
  if (threadIdx.x == 0) computer.expect_exchange(place, static_cast<unsigned>(4 * rows * cut.columns()));
  unsigned const rank = cluster_rank();
  for (int column = share.column; column < cut.columns(); column += share.step) {
    auto const to = static_cast<unsigned>(column / columns);
    auto const sum = joined.sum(column, share.channel);
    unsigned const at =
        room + 4 * ((rank * columns + static_cast<unsigned>(column % columns)) * rows + share.channel);
    store_remote(in_block(at, to), in_block(barrier, to), sum.x, sum.y, sum.z, sum.w);
  }
  computer.wait_exchange(place);
  return static_cast<float4 const*>(__cvta_shared_to_generic(room));
}

}  // namespace tessera::convolution
