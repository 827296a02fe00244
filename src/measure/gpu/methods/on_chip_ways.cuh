// SPDX-License-Identifier: Apache-2.0
// Ways to sum doubles in shared memory: what threads do alone, and how they put it together.
#pragma once

#include <cooperative_groups.h>

namespace tessera::probe {

/// Every thread its own share, nothing put together; with 1 thread, the serial sum.
template <int Threads>
struct OwnShares {
  __device__ double operator()(double const* box, int elements, int zero, int) {
    double mine = 0;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x) + zero; i < elements; i += Threads) mine += box[i];
    return mine;
  }
};

/// All lanes have the sum.
__device__ inline double sum_in_warp(double value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

/// A warp, or a block: its first warp puts the warps' sums together, and a second barrier lets all threads
/// know, which only a next sum that waits for this one needs.
template <int Threads>
struct SharedOut {
  __device__ double operator()(double const* box, int elements, int zero, int repeat) {
    double const mine = sum_in_warp(OwnShares<Threads>()(box, elements, zero, repeat));
    if constexpr (Threads == 32) return mine;
    __shared__ double partial[32], total;
    int const lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    if (lane == 0) partial[warp] = mine;
    __syncthreads();
    if (warp == 0) {
      double const all = sum_in_warp(lane < Threads / 32 ? partial[lane] : 0.0);
      if (lane == 0) total = all;
    }
    __syncthreads();
    return total;
  }
};

/// The paper's ways to sum 32 doubles by a tree in shared memory: lane l adds what lane l + step has.
enum class TreeSync { none, tile, coalesced };
template <TreeSync S>
struct WarpTree {
  __device__ double operator()(double const* box, int, int zero, int) {
    namespace cg = cooperative_groups;
    __shared__ double volatile tree[64];
    int const lane = static_cast<int>(threadIdx.x) + zero;
    auto const tile = cg::tiled_partition<32>(cg::this_thread_block());
    auto const group = cg::coalesced_threads();
    auto const sync = [&] {
      if constexpr (S == TreeSync::tile) tile.sync();
      if constexpr (S == TreeSync::coalesced) group.sync();
    };
    double value = box[lane];
    tree[lane] = value;
    sync();
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      value += lane < step ? tree[lane + step] : 0.0;
      tree[lane] = value;
      sync();
    }
    double const total = tree[0];
    sync();
    return total;
  }
};

/// The same by shuffles of a group.
template <bool Coalesced>
struct WarpShuffles {
  __device__ double operator()(double const* box, int, int zero, int) {
    namespace cg = cooperative_groups;
    double value = box[static_cast<int>(threadIdx.x) + zero];
    if constexpr (Coalesced) {
      auto const group = cg::coalesced_threads();
#pragma unroll
      for (int step = 16; step > 0; step /= 2) value += group.shfl_down(value, static_cast<unsigned>(step));
    } else {
      auto const tile = cg::tiled_partition<32>(cg::this_thread_block());
#pragma unroll
      for (int step = 16; step > 0; step /= 2) value += tile.shfl_down(value, static_cast<unsigned>(step));
    }
    return value;
  }
};

/// One thread adds up, the others watch.
struct SerialSum {
  __device__ double operator()(double const* box, int elements, int zero, int) {
    double sum = 0;
    if (threadIdx.x == 0)
#pragma unroll 32
      for (int i = zero; i < elements; ++i) sum += box[i];
    return sum;
  }
};

/// Nothing but what every way has: an address that waits for the result before, and a load.
struct LoadOnly {
  __device__ double operator()(double const* box, int, int zero, int) {
    return box[static_cast<int>(threadIdx.x) + zero];
  }
};

}  // namespace tessera::probe
