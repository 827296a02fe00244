// SPDX-License-Identifier: Apache-2.0
// Each thread's share of the input: vectors of 16 bytes, dealt to all threads of the grid in turn, so that
// any size is spread evenly over the SMs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::reduction {

/// The input as vectors, with what is before and behind them.
template <class T>
struct Cut {
  static constexpr unsigned per = 16 / sizeof(T);  ///< elements of a vector
  uint4 const* vectors;
  std::size_t count;  ///< of vectors
  T const* first;     ///< elements before the vectors
  unsigned before;
  T const* last;  ///< elements behind them
  unsigned behind;

  __device__ __forceinline__ Cut(T const* x, std::size_t n) {
    auto const misaligned = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(x) % 16 / sizeof(T));
    std::size_t const head = misaligned == 0 ? 0 : per - misaligned;
    before = static_cast<unsigned>(head < n ? head : n);
    first = x;
    vectors = reinterpret_cast<uint4 const*>(x + before);
    count = (n - before) / per;
    last = x + before + count * per;
    behind = static_cast<unsigned>(n - before - count * per);
  }

  /// What is before and behind, one element each for a few threads of block 0; zero for all others.
  __device__ __forceinline__ T edge() const {
    if (blockIdx.x != 0) return T(0);
    unsigned const i = threadIdx.x;
    if (i < before) return first[i];
    return i - before < behind ? last[i - before] : T(0);
  }
};

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
  /// How far behind vector `i` the last one is, cut off at what 32 bits hold: a batch asks for no more.
  __device__ __forceinline__ static unsigned left(std::size_t i, std::size_t count) {
    std::size_t const all = i < count ? count - i : 0;
    return all < 0x40000000u ? static_cast<unsigned>(all) : 0x40000000u;
  }
};

/// Brings the first `Batches` times `Unroll` vectors of every thread into the L2. Reads nothing, so it may be
/// called while the kernel before still writes them.
template <class T, int Threads, int Unroll, int Blocks, int Batches>
__device__ __forceinline__ void prefetch_share(T const* x, std::size_t n) {
  using At = Turn<Threads, Blocks>;
  constexpr unsigned line = 128 / 16;  // vectors of a line
  if (threadIdx.x % line != 0) return;
  Cut<T> const cut(x, n);
  unsigned const left = At::left(At::first(), cut.count), step = At::step();
  uint4 const* const from = cut.vectors + At::first();
#pragma unroll Unroll
  for (unsigned k = 0; k < Batches * Unroll; ++k) {
    if (k * step >= left) return;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from + k * step));
  }
}

/// The sum of the calling thread's share, `Unroll` vectors in flight. What fits into the first batch goes
/// without a loop: small sums are all latency.
template <class T, int Threads, int Unroll, int Blocks = 0>
__device__ __forceinline__ T share_by_vectors(T const* x, std::size_t n) {
  using At = Turn<Threads, Blocks>;
  Cut<T> const cut(x, n);
  T const edge = cut.edge();
  Lanes<T> lanes;
  unsigned const step = At::step();
  std::size_t i = At::first();
  // Zeros add nothing: -0 is no matter, since an empty sum is +0.
  auto const batch = [&] {
    unsigned const left = At::left(i, cut.count);
    uint4 const* const from = cut.vectors + i;
    uint4 v[Unroll];
#pragma unroll
    for (unsigned k = 0; k < Unroll; ++k) v[k] = k * step < left ? load_vector(from + k * step) : uint4{};
#pragma unroll
    for (int k = 0; k < Unroll; ++k) lanes.add(v[k]);
    i += static_cast<std::size_t>(Unroll) * step;
  };
  batch();
  if (i < cut.count) {
    std::size_t const last = static_cast<std::size_t>(Unroll - 1) * step;
    for (; i + last < cut.count; i += static_cast<std::size_t>(Unroll) * step) {
      uint4 const* const from = cut.vectors + i;
      uint4 v[Unroll];
#pragma unroll
      for (unsigned k = 0; k < Unroll; ++k) v[k] = load_vector(from + static_cast<std::size_t>(k * step));
#pragma unroll
      for (int k = 0; k < Unroll; ++k) lanes.add(v[k]);
    }
    batch();
  }
  return lanes.sum() + edge;
}

}  // namespace tessera::reduction
