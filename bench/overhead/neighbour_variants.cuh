// SPDX-License-Identifier: Apache-2.0
// Not barriers: ways to let every block of a grid wait for a few others, to be compared.
#pragma once

#include "barrier_variants.cuh"

namespace tessera::bench {

/// Not a barrier: block i waits for blocks i - 1 and i + 1, `Reach` times as many for more.
template <int Stride, int Reach = 1>
struct Neighbours {
  unsigned* words;
  unsigned epoch = 0;
  __device__ explicit Neighbours(Arena arena) : words(arena.words) {}
  __device__ void sync() {
    ++epoch;
    __syncthreads();
    if (threadIdx.x == 0) store_release<Scope::device>(words + blockIdx.x * Stride, epoch);
    if (threadIdx.x < 2 * Reach) {
      unsigned const away = threadIdx.x / 2 + 1;
      unsigned const other =
          (blockIdx.x + (threadIdx.x % 2 == 0 ? away : gridDim.x - away % gridDim.x)) % gridDim.x;
      spin([&] { return reached(load_acquire<Scope::device>(words + other * Stride), epoch); });
    }
    __syncthreads();
  }
};

/// Two neighbours, looked at by another warp than the one that arrives; without order: no barrier.
template <bool Ordered>
struct NeighboursOtherWarp {
  unsigned* words;
  unsigned epoch = 0;
  __device__ explicit NeighboursOtherWarp(Arena arena) : words(arena.words) {}
  __device__ void sync() {
    ++epoch;
    __syncthreads();
    if (threadIdx.x == 0) {
      if constexpr (Ordered)
        store_release<Scope::device>(words + blockIdx.x * 32, epoch);
      else
        asm volatile("st.relaxed.gpu.u32 [%0], %1;" ::"l"(words + blockIdx.x * 32), "r"(epoch) : "memory");
    }
    if (threadIdx.x / 2 == 16) {
      unsigned const other = ring_neighbour(threadIdx.x % 2);
      spin([&] {
        unsigned const seen =
            Ordered ? load_acquire<Scope::device>(words + other * 32) : load_relaxed(words + other * 32);
        return reached(seen, epoch);
      });
    }
    __syncthreads();
  }
};

/// Two neighbours, with a word for each, `Spacing` words apart.
template <int Spacing, bool Add = false>
struct NeighbourPairs {
  unsigned* words;
  unsigned epoch = 0;
  __device__ explicit NeighbourPairs(Arena arena) : words(arena.words) {}
  __device__ void sync() {
    ++epoch;
    __syncthreads();
    if (threadIdx.x < 2) {
      unsigned const other = ring_neighbour(threadIdx.x);
      unsigned* const mine = words + (2 * blockIdx.x + threadIdx.x) * Spacing;
      if constexpr (Add)
        add_release<Scope::device>(mine, 1);
      else
        store_release<Scope::device>(mine, epoch);
      unsigned const* const word = words + (2 * other + 1 - threadIdx.x) * Spacing;
      spin([&] { return reached(load_acquire<Scope::device>(word), epoch); });
    }
    __syncthreads();
  }
};

/// Two neighbours, each block's word in both halves of the L2; looked at in the nearer. What it costs without
/// a release, without an acquire.
template <bool Release = true, bool Acquire = true, bool OtherWarp = false>
struct NearNeighbours {
  unsigned* words;
  unsigned const* near;
  unsigned flip;
  unsigned epoch = 0;
  __device__ explicit NearNeighbours(Arena arena) : words(arena.words), flip(arena.flip) {
    unsigned const poller = threadIdx.x - (OtherWarp ? 32 : 0);
    unsigned const other = ring_neighbour(poller);
    unsigned* const word = words + other * 32;
    near = poller < 2 && cycles_to(word) < cycles_to(word + flip) ? word : word + flip;
  }
  __device__ void sync() {
    ++epoch;
    __syncthreads();
    if (threadIdx.x < 2) {
      unsigned* const mine = words + blockIdx.x * 32 + threadIdx.x * flip;
      if constexpr (Release)
        store_release<Scope::device>(mine, epoch);
      else
        asm volatile("st.relaxed.gpu.u32 [%0], %1;" ::"l"(mine), "r"(epoch) : "memory");
    }
    if (threadIdx.x / 2 == (OtherWarp ? 16 : 0))
      spin([&] {
        unsigned const seen = Acquire ? load_acquire<Scope::device>(near) : load_relaxed(near);
        return reached(seen, epoch);
      });
    __syncthreads();
  }
};

/// The library's.
struct LibraryNeighbours {
  EpochBarrier<> barrier;
  __device__ explicit LibraryNeighbours(Arena arena) : barrier({arena.words, gridDim.x}, blockIdx.x) {}
  __device__ void sync() {
    barrier.arrive();
    barrier.wait_for(2, [](unsigned i) { return ring_neighbour(i); });
  }
};

}  // namespace tessera::bench
