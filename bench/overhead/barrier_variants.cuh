// SPDX-License-Identifier: Apache-2.0
// Ways to make all blocks of a grid wait for each other, to be compared: the library has the ones that win.
// Each is a type with sync(), called by all threads of all blocks. Every poll is bounded (a hang traps), but
// those of the library and of cooperative groups, which are timed as they are: all blocks are resident.
#pragma once

#include <cooperative_groups.h>

#include "tessera/sync/barrier.cuh"

namespace tessera::bench {

struct Arena {
  unsigned* words;    ///< zeroed before each launch
  unsigned flip = 0;  ///< words[i] and words[i ^ flip] are in different halves of the L2
};

__device__ inline unsigned load_relaxed(unsigned const* address) {
  unsigned value;
  asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}
__device__ inline void add_relaxed(unsigned* address, unsigned amount) {
  asm volatile("red.relaxed.gpu.add.u32 [%0], %1;" ::"l"(address), "r"(amount) : "memory");
}
__device__ inline void fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
__device__ inline void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ inline unsigned rank_in_cluster() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ inline unsigned cluster_size() {
  unsigned size;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
}

/// The next block (0) and the one before, in a ring.
__device__ inline unsigned ring_neighbour(unsigned i) {
  return (blockIdx.x + (i == 0 ? 1 : gridDim.x - 1)) % gridDim.x;
}

template <class Done>
__device__ inline void spin(Done done) {
  for (unsigned polls = 0; !done(); ++polls)
    if (polls > 5'000'000) __trap();
}

struct Cooperative {
  __device__ explicit Cooperative(Arena) {}
  __device__ void sync() { cooperative_groups::this_grid().sync(); }
};

/// One word a block, `Stride` words apart; the block's threads look at all of them.
template <int Stride>
struct Words {
  unsigned* words;
  unsigned epoch = 0;
  __device__ explicit Words(Arena arena) : words(arena.words) {}
  __device__ void sync() {
    ++epoch;
    __syncthreads();
    if (threadIdx.x == 0) store_release<Scope::device>(words + blockIdx.x * Stride, epoch);
    for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x)
      spin([&] { return reached(load_acquire<Scope::device>(words + i * Stride), epoch); });
    __syncthreads();
  }
};

/// The same, looked at by one thread for four words.
struct WideWords {
  unsigned* words;
  unsigned epoch = 0;
  __device__ explicit WideWords(Arena arena) : words(arena.words) {}
  __device__ void sync() {
    ++epoch;
    __syncthreads();
    if (threadIdx.x == 0) store_release<Scope::device>(words + blockIdx.x, epoch);
    for (unsigned i = threadIdx.x * 4; i < gridDim.x; i += blockDim.x * 4)
      spin([&] {
        unsigned a, b, c, d;
        asm volatile("ld.acquire.gpu.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                     : "l"(words + i)
                     : "memory");
        unsigned const n = gridDim.x - i;
        return reached(a, epoch) && (n < 2 || reached(b, epoch)) && (n < 3 || reached(c, epoch)) &&
               (n < 4 || reached(d, epoch));
      });
    __syncthreads();
  }
};

/// One block looks at all words and then writes the word that the others look at.
struct Gathered {
  unsigned* words;
  unsigned epoch = 0;
  __device__ explicit Gathered(Arena arena) : words(arena.words) {}
  __device__ void sync() {
    unsigned* const go = words + 4096;
    ++epoch;
    __syncthreads();
    if (blockIdx.x == 0) {
      for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x)
        if (i > 0) spin([&] { return reached(load_acquire<Scope::device>(words + i), epoch); });
      __syncthreads();
      if (threadIdx.x == 0) store_release<Scope::device>(go, epoch);
    } else {
      if (threadIdx.x == 0) {
        store_release<Scope::device>(words + blockIdx.x, epoch);
        spin([&] { return reached(load_acquire<Scope::device>(go), epoch); });
      }
      __syncthreads();
    }
  }
};

enum class Poll { acquire, relaxed, pipelined, every_warp };
enum class Arrive { release_add, fence_everywhere, answered };

/// `Counters` words, 1024 words apart; block i counts in word i mod Counters.
template <Poll P = Poll::acquire, Arrive A = Arrive::release_add, int Counters = 1>
struct Counter {
  unsigned* words;
  unsigned rounds = 0;
  __device__ explicit Counter(Arena arena) : words(arena.words) {}
  __device__ unsigned target(unsigned counter) const {
    return rounds * ((gridDim.x + Counters - 1 - counter) / Counters);
  }
  __device__ void sync() {
    ++rounds;
    if constexpr (A == Arrive::fence_everywhere) fence();
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned* const mine = words + blockIdx.x % Counters * 1024;
      if constexpr (A == Arrive::release_add) add_release<Scope::device>(mine, 1);
      if constexpr (A == Arrive::fence_everywhere) add_relaxed(mine, 1);
      if constexpr (A == Arrive::answered) {
        unsigned old;
        asm volatile("atom.add.release.gpu.u32 %0, [%1], 1;" : "=r"(old) : "l"(mine) : "memory");
        asm volatile("" ::"r"(old));
      }
    }
    unsigned const lane = threadIdx.x % 32;
    bool const looks = P == Poll::every_warp ? lane < Counters : threadIdx.x < Counters;
    if (looks) {
      unsigned const counter = P == Poll::every_warp ? lane : threadIdx.x;
      unsigned const* const word = words + counter * 1024;
      unsigned const wanted = target(counter);
      if constexpr (P == Poll::acquire || P == Poll::every_warp)
        spin([&] { return reached(load_acquire<Scope::device>(word), wanted); });
      if constexpr (P == Poll::relaxed) {
        spin([&] { return reached(load_relaxed(word), wanted); });
        fence();
      }
      if constexpr (P == Poll::pipelined) {
        // Four looks on their way, a quarter of a round trip apart.
        unsigned seen[4];
        for (int i = 0; i < 4; ++i) {
          seen[i] = load_relaxed(word);
          long long const begin = clock64();
          while (clock64() - begin < 90) {
          }
        }
        for (unsigned polls = 0;; ++polls) {
          if (polls > 5'000'000) __trap();
          if (reached(seen[0], wanted)) break;
          seen[0] = load_relaxed(word);
          if (reached(seen[1], wanted)) break;
          seen[1] = load_relaxed(word);
          if (reached(seen[2], wanted)) break;
          seen[2] = load_relaxed(word);
          if (reached(seen[3], wanted)) break;
          seen[3] = load_relaxed(word);
        }
        fence();
      }
    }
    if constexpr (P == Poll::every_warp)
      __syncwarp();
    else
      __syncthreads();
  }
};

/// One counter; the warps other than the first arrive at the block's barrier without waiting there.
struct CounterSplitBlock {
  unsigned* words;
  unsigned rounds = 0;
  __device__ explicit CounterSplitBlock(Arena arena) : words(arena.words) {}
  __device__ void sync() {
    ++rounds;
    if (threadIdx.x < 32) {
      asm volatile("bar.sync 1, %0;" ::"r"(blockDim.x) : "memory");
      if (threadIdx.x == 0) {
        add_release<Scope::device>(words, 1);
        spin([&] { return reached(load_acquire<Scope::device>(words), rounds * gridDim.x); });
      }
    } else {
      asm volatile("bar.arrive 1, %0;" ::"r"(blockDim.x) : "memory");
    }
    __syncthreads();
  }
};

/// One counter; thread 0 first looks `Cycles` after it has arrived, so that fewer polls meet the adds.
/// `Ordered` = false: no barrier at all, only what one without order would take.
template <int Cycles, bool Ordered = true>
struct DelayedCounter {
  unsigned* words;
  unsigned rounds = 0;
  __device__ explicit DelayedCounter(Arena arena) : words(arena.words) {}
  __device__ void sync() {
    ++rounds;
    __syncthreads();
    if (threadIdx.x == 0) {
      if constexpr (Ordered)
        add_release<Scope::device>(words, 1);
      else
        add_relaxed(words, 1);
      long long const begin = clock64();
      while (clock64() - begin < Cycles) {
      }
      if constexpr (Ordered)
        spin([&] { return reached(load_acquire<Scope::device>(words), rounds * gridDim.x); });
      else
        spin([&] { return reached(load_relaxed(words), rounds * gridDim.x); });
    }
    __syncthreads();
  }
};

/// Every block counts in each of `Replicas` words, in slices of their own, and looks at one of them, first
/// `Cycles` after it has arrived.
template <int Replicas, int Cycles, int Spacing = 1056>
struct Replicated {
  unsigned* words;
  unsigned rounds = 0;
  __device__ explicit Replicated(Arena arena) : words(arena.words) {}
  __device__ void sync() {
    ++rounds;
    __syncthreads();
    if (threadIdx.x < Replicas) add_release<Scope::device>(words + threadIdx.x * Spacing, 1);
    if (threadIdx.x == 0) {
      if constexpr (Cycles > 0) {
        long long const begin = clock64();
        while (clock64() - begin < Cycles) {
        }
      }
      unsigned const* const word = words + blockIdx.x % Replicas * Spacing;
      spin([&] { return reached(load_acquire<Scope::device>(word), rounds * gridDim.x); });
    }
    __syncthreads();
  }
};

/// `Counters` counters, each in `Replicas` words: a block counts in the words of one, and looks at one word
/// of each.
template <int Replicas, int Counters, int Cycles, int Spacing = 1056>
struct Split {
  unsigned* words;
  unsigned rounds = 0;
  __device__ explicit Split(Arena arena) : words(arena.words) {}
  __device__ void sync() {
    ++rounds;
    __syncthreads();
    unsigned const mine = blockIdx.x % Counters;
    if (threadIdx.x < Replicas)
      add_release<Scope::device>(words + (threadIdx.x * Counters + mine) * Spacing, 1);
    if (threadIdx.x < Counters) {
      if constexpr (Cycles > 0) {
        long long const begin = clock64();
        while (clock64() - begin < Cycles) {
        }
      }
      unsigned const replica = blockIdx.x / Counters % Replicas;
      unsigned const* const word = words + (replica * Counters + threadIdx.x) * Spacing;
      unsigned const wanted = rounds * ((gridDim.x + Counters - 1 - threadIdx.x) / Counters);
      spin([&] { return reached(load_acquire<Scope::device>(word), wanted); });
    }
    __syncthreads();
  }
};

/// Cycles of an answered add: less where the word is in the SM's half of the L2. One add waits for the other,
/// so that the clock is not read too early.
__device__ inline int cycles_to(unsigned* word) {
  unsigned none = 0;
  long long const begin = clock64();
  for (int i = 0; i < 5; ++i)
    asm volatile("atom.relaxed.gpu.and.b32 %0, [%1], 0xffffffff;"
                 : "=r"(none)
                 : "l"(word + (none >> 31))
                 : "memory");
  return static_cast<int>(clock64() - begin) / 4;
}

/// A counter in two words, one in each half of the L2; every block counts in both and looks at the nearer.
template <int Cycles>
struct NearCounter {
  unsigned* words;
  unsigned const* near;
  unsigned flip;
  unsigned rounds = 0;
  __device__ explicit NearCounter(Arena arena) : words(arena.words), flip(arena.flip) {
    near = cycles_to(words) < cycles_to(words + flip) ? words : words + flip;
  }
  __device__ void sync() {
    ++rounds;
    __syncthreads();
    if (threadIdx.x < 2) add_release<Scope::device>(words + threadIdx.x * flip, 1);
    if (threadIdx.x == 0) {
      if constexpr (Cycles > 0) {
        long long const begin = clock64();
        while (clock64() - begin < Cycles) {
        }
      }
      spin([&] { return reached(load_acquire<Scope::device>(near), rounds * gridDim.x); });
    }
    __syncthreads();
  }
};

/// One counter, at which only one thread looks; then it writes the word that the others look at.
struct GatheredCounter {
  unsigned* words;
  unsigned rounds = 0;
  __device__ explicit GatheredCounter(Arena arena) : words(arena.words) {}
  __device__ void sync() {
    unsigned* const go = words + 4096;
    ++rounds;
    __syncthreads();
    if (threadIdx.x == 0) {
      add_release<Scope::device>(words, 1);
      if (blockIdx.x == 0) {
        spin([&] { return reached(load_acquire<Scope::device>(words), rounds * gridDim.x); });
        store_release<Scope::device>(go, rounds);
      } else {
        spin([&] { return reached(load_acquire<Scope::device>(go), rounds); });
      }
    }
    __syncthreads();
  }
};

/// One counter, whose last add writes the word that the others look at.
struct LastReleases {
  unsigned* words;
  unsigned rounds = 0;
  __device__ explicit LastReleases(Arena arena) : words(arena.words) {}
  __device__ void sync() {
    unsigned* const go = words + 4096;
    ++rounds;
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned old;
      asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], 1;" : "=r"(old) : "l"(words) : "memory");
      if (old + 1 == rounds * gridDim.x)
        store_release<Scope::device>(go, rounds);
      else
        spin([&] { return reached(load_acquire<Scope::device>(go), rounds); });
    }
    __syncthreads();
  }
};

/// The blocks of a cluster meet, its first block counts; then `Leader`: that block waits and they meet again,
/// else every block waits.
template <bool Leader>
struct Clustered {
  unsigned* words;
  unsigned rounds = 0;
  __device__ explicit Clustered(Arena arena) : words(arena.words) {}
  __device__ void sync() {
    ++rounds;
    cluster_barrier();
    bool const first = rank_in_cluster() == 0;
    unsigned const wanted = rounds * (gridDim.x / cluster_size());
    if (threadIdx.x == 0) {
      if (first) add_release<Scope::device>(words, 1);
      if (first || !Leader) spin([&] { return reached(load_acquire<Scope::device>(words), wanted); });
    }
    if constexpr (Leader)
      cluster_barrier();
    else
      __syncthreads();
  }
};

/// The library's.
struct Library {
  GridBarrier<> barrier;
  __device__ explicit Library(Arena arena) : barrier({arena.words, gridDim.x}, blockIdx.x) {}
  __device__ void sync() { barrier.sync(); }
};
struct LibraryClusters {
  GridBarrier<NoWatch, Party::cluster> barrier;
  __device__ explicit LibraryClusters(Arena arena)
      : barrier({arena.words, gridDim.x / cluster_size()}, blockIdx.x / cluster_size()) {}
  __device__ void sync() { barrier.sync(); }
};

}  // namespace tessera::bench
