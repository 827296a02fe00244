// SPDX-License-Identifier: Apache-2.0
// Each thread's share of the input: vectors of 16 bytes, dealt to all threads of the grid in turn, so that
// any size is spread evenly over the SMs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cut.hpp"

namespace tessera::reduction {

/// What is before and behind the vectors: one element each for a few threads of block 0; zero for all others.
template <class T>
__device__ __forceinline__ T edge_of(Cut const& cut) {
  unsigned const i = threadIdx.x;
  if (blockIdx.x != 0 || i >= cut.edges) return T(0);
  return i < cut.before ? static_cast<T const*>(cut.first)[i]
                        : static_cast<T const*>(cut.last)[i - cut.before];
}

/// Not kept in L1: nothing is read twice.
__device__ __forceinline__ uint4 load_vector(uint4 const* from) {
  uint4 v;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

/// Sums of the vectors' elements by their place in the vector: as many independent additions.
template <class T>
struct Lanes {
  T value[16 / sizeof(T)] = {};

  __device__ __forceinline__ void add(uint4 const& v) {
    if constexpr (sizeof(T) == 8) {
      value[0] += __hiloint2double(static_cast<int>(v.y), static_cast<int>(v.x));
      value[1] += __hiloint2double(static_cast<int>(v.w), static_cast<int>(v.z));
    } else if constexpr (T(0.5) != T(0)) {
      value[0] += __uint_as_float(v.x);
      value[1] += __uint_as_float(v.y);
      value[2] += __uint_as_float(v.z);
      value[3] += __uint_as_float(v.w);
    } else {
      value[0] += v.x;
      value[1] += v.y;
      value[2] += v.z;
      value[3] += v.w;
    }
  }
  __device__ __forceinline__ T sum() const {
    if constexpr (sizeof(T) == 8) return value[0] + value[1];
    return (value[0] + value[1]) + (value[2] + value[3]);
  }
};

/// Where the calling thread's vectors are: g, g + G, g + 2G, ... for thread g of G in the grid. `Blocks` is 1
/// or, for as many as there are, 0.
template <int Threads, int Blocks>
struct Turn {
  __device__ __forceinline__ static unsigned step() { return Blocks == 1 ? Threads : gridDim.x * Threads; }
  __device__ __forceinline__ static unsigned first() {
    return Blocks == 1 ? threadIdx.x : blockIdx.x * Threads + threadIdx.x;
  }
};

/// Brings the first `bytes` of the vectors, or a little more, into the L2, each block what it will read
/// itself. Reads nothing, so it may be called while the kernel before still writes them. Not inlined: out of
/// the way of those who do not call it.
template <int Threads, int Blocks>
__device__ __noinline__ void fetch_share(Cut const& cut, unsigned bytes) {
  using At = Turn<Threads, Blocks>;
  // A thread for each of the block's pieces, one to a row of the grid.
  std::size_t const row = 16 * static_cast<std::size_t>(At::step());
  for (unsigned k = threadIdx.x; k * row < bytes; k += Threads) {
    std::size_t const i = At::first() - threadIdx.x + static_cast<std::size_t>(k) * At::step();
    if (i >= cut.count) return;
    std::size_t const left = cut.count - i;
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(cut.vectors + i),
                 "r"(16 * static_cast<unsigned>(left < Threads ? left : Threads)));
  }
}

/// The sum of the calling thread's share, `Unroll` vectors in flight. What fits into the first batch goes
/// without a loop: small sums are all latency.
template <class T, int Threads, int Unroll, int Blocks = 0>
__device__ __forceinline__ T share_by_vectors(Cut const& cut) {
  using At = Turn<Threads, Blocks>;
  Lanes<T> lanes;
  unsigned const step = At::step(), first = At::first();
  // Zeros add nothing: -0 is no matter, since an empty sum is +0.
  auto const batch = [&](uint4 const* from, unsigned left) {
    uint4 v[Unroll];
#pragma unroll
    for (unsigned k = 0; k < Unroll; ++k) v[k] = k * step < left ? load_vector(from + k * step) : uint4{};
#pragma unroll
    for (int k = 0; k < Unroll; ++k) lanes.add(v[k]);
  };
  batch(cut.vectors + first, first < cut.count_cut_off ? cut.count_cut_off - first : 0);
  T const edge = edge_of<T>(cut);
  if (Unroll * step < cut.count_cut_off) {
    std::size_t i = first + static_cast<std::size_t>(Unroll) * step;
    if constexpr (Blocks == 1) {
      // Never for the sizes that one block is chosen for.
#pragma unroll 4
      for (; i < cut.count; i += step) lanes.add(load_vector(cut.vectors + i));
    } else {
      std::size_t const last = static_cast<std::size_t>(Unroll - 1) * step;
      for (; i + last < cut.count; i += static_cast<std::size_t>(Unroll) * step) {
        uint4 const* const from = cut.vectors + i;
        uint4 v[Unroll];
#pragma unroll
        for (unsigned k = 0; k < Unroll; ++k) v[k] = load_vector(from + static_cast<std::size_t>(k * step));
#pragma unroll
        for (int k = 0; k < Unroll; ++k) lanes.add(v[k]);
      }
      std::size_t const left = i < cut.count ? cut.count - i : 0;
      batch(cut.vectors + i, static_cast<unsigned>(left < Cut::k_many ? left : Cut::k_many));
    }
  }
  return lanes.sum() + edge;
}

}  // namespace tessera::reduction
