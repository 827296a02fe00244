// SPDX-License-Identifier: Apache-2.0
// How the sums of blocks become one: the part in which the variants differ. Each function is called by all
// threads of every block; `sum` is the block's, in thread 0.
#pragma once

#include <cooperative_groups.h>

#include <cstring>

#include "block_sum.cuh"
#include "bulk.cuh"
#include "workspace.cuh"

namespace tessera::reduction {

/// The last block in launch order adds up: when it starts, all others have started or ended, so that waiting
/// in it holds up nobody.
__device__ __forceinline__ bool is_collector() { return blockIdx.x == gridDim.x - 1; }

__device__ __forceinline__ unsigned long long load_relaxed(unsigned long long const* from) {
  return load_counter(from);
}
__device__ __forceinline__ void store_relaxed(unsigned long long* to, unsigned long long value) {
  asm volatile("st.relaxed.gpu.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}

template <class T>
__device__ __forceinline__ unsigned long long bits_of(T value) {
  unsigned long long bits = 0;
  memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
__device__ __forceinline__ T value_of(unsigned long long bits) {
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/// What a failed wait leaves: no number, as far as the type has one.
template <class T>
__device__ __forceinline__ T no_sum() {
  if constexpr (sizeof(T) == 8) return __longlong_as_double(0x7ff8000000000000ll);
  if constexpr (T(0.5) != T(0)) return __uint_as_float(0x7fc00000u);
  return T(0xdeadbeefu);
}

template <int Threads, class T>
struct Scratch {
  alignas(16) T warps[Threads / 32];
  alignas(16) T warps_again[Threads / 32];
  unsigned long long base;
  int last;
  unsigned long long arrived;       ///< clusters: the first block's barrier, for the sums of the others
  unsigned long long of_others[8];  ///< clusters: an element each
};

/// clusters: readies the first block's barrier. What the others need is that it is ready; they wait for that
/// when their loads are done.
template <int Threads, class T>
__device__ __forceinline__ void open_cluster(Scratch<Threads, T>& scratch) {
  auto const cluster = cooperative_groups::this_cluster();
  if (cluster.num_blocks() == 1) return;
  if (cluster.block_rank() == 0 && threadIdx.x == 0) {
    unsigned const barrier = detail::shared_address(&scratch.arrived);
    detail::barrier_init(barrier, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                 "r"(8 * (cluster.num_blocks() - 1))
                 : "memory");
  }
  cluster.barrier_arrive();
}

/// The cluster's sum, in thread 0 of its first block. The others send theirs to it, each with its arrival,
/// and may leave.
template <int Threads, class T>
__device__ __forceinline__ T cluster_sum(T sum, Scratch<Threads, T>& scratch) {
  auto const cluster = cooperative_groups::this_cluster();
  unsigned const size = cluster.num_blocks(), rank = cluster.block_rank();
  if (size == 1) return sum;
  cluster.barrier_wait();
  if (threadIdx.x >= 32) return sum;
  if (rank != 0) {
    if (threadIdx.x == 0) {
      unsigned to, barrier;
      asm("mapa.shared::cluster.u32 %0, %1, 0;"
          : "=r"(to)
          : "r"(detail::shared_address(scratch.of_others + rank)));
      asm("mapa.shared::cluster.u32 %0, %1, 0;"
          : "=r"(barrier)
          : "r"(detail::shared_address(&scratch.arrived)));
      asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(to),
                   "l"(bits_of(sum)), "r"(barrier)
                   : "memory");
    }
    return sum;
  }
  detail::barrier_wait(detail::shared_address(&scratch.arrived), 0);
  if (threadIdx.x == 0) {
    for (unsigned i = 1; i < size; ++i) sum += value_of<T>(scratch.of_others[i]);
  }
  return sum;
}

/// Adds up what is in sums[0 ... count - 1]: thread t takes t, t + Threads, ...
template <int Threads, class T>
__device__ __forceinline__ T sum_of_sums(unsigned long long const* sums, unsigned count, T* scratch) {
  T mine = T(0);
  for (unsigned i = threadIdx.x; i < count; i += Threads) mine += value_of<T>(load_relaxed(sums + i));
  return block_sum<Threads>(mine, scratch);
}

/// Before the loads, by all threads: what takes a trip to the L2 and is needed at the end. Thread 0's.
template <Variant V>
__device__ __forceinline__ unsigned long long base_of(Workspace const& w) {
  if (threadIdx.x != 0) return 0;
  if constexpr (V == Variant::data_token || V == Variant::clusters) return load_relaxed(&w.launches);
  if constexpr (V == Variant::last_block) return load_relaxed(&w.finished_before);
  return 0;
}

/// data_token: party `party` of `parties` puts its sum; with `collect`, this block takes them all.
template <int Threads, class T>
__device__ __forceinline__ void by_token(Arguments const& a, T sum, unsigned party, unsigned parties,
                                         bool collect, unsigned long long base,
                                         Scratch<Threads, T>& scratch) {
  Workspace& w = *a.workspace;
  if (threadIdx.x == 0) {
    unsigned long long const bits = bits_of(sum);
    put(w.tokens + party,
        Packet<3>{{static_cast<unsigned>(bits), static_cast<unsigned>(bits >> 32),
                   static_cast<unsigned>(base >> 32)}},
        static_cast<unsigned>(base));
    scratch.base = base;
  }
  if (!collect) return;
  __syncthreads();
  base = scratch.base;
  auto const& watch = a.watch;
  T mine = T(0);
  bool ok = true;
  for (unsigned i = threadIdx.x; i < parties && ok; i += Threads) {
    Packet<3> item[1];
    // A sum from 2^32 launches ago has the token, but not the upper half.
    auto const upper = static_cast<unsigned>(base >> 32);
    auto patience = watch.begin();
    for (;;) {
      ok = take(w.tokens + i, 1, static_cast<unsigned>(base), item, watch, {0, party, 0});
      if (!ok || item[0].payload[2] == upper) break;
      // take() returns at once for an old sum's token, so its deadline does not count here.
      ok = watch.go_on(patience, WaitPlace{0, party, k_data_token}, item[0].payload[2], upper);
      if (!ok) break;
    }
    mine += value_of<T>(item[0].payload[0] | static_cast<unsigned long long>(item[0].payload[1]) << 32);
  }
  ok = __syncthreads_and(ok) != 0;
  T const total = block_sum<Threads>(mine, scratch.warps_again);
  if (threadIdx.x == 0) {
    *static_cast<T*>(a.out) = ok ? total : no_sum<T>();
    store_relaxed(&w.launches, base + 1);
  }
}

template <Variant V, int Threads, class T>
__device__ __forceinline__ void combine(Arguments const& a, T sum, unsigned long long base,
                                        Scratch<Threads, T>& scratch) {
  Workspace& w = *a.workspace;
  T* const out = static_cast<T*>(a.out);
  if constexpr (V == Variant::one_block) {
    if (threadIdx.x == 0) *out = sum;
  } else if constexpr (V == Variant::data_token) {
    by_token<Threads>(a, sum, blockIdx.x, gridDim.x, is_collector(), base, scratch);
  } else if constexpr (V == Variant::clusters) {
    auto const cluster = cooperative_groups::this_cluster();
    sum = cluster_sum(sum, scratch);
    if (cluster.block_rank() != 0) return;
    unsigned const size = cluster.num_blocks(), clusters = gridDim.x / size, mine = blockIdx.x / size;
    if (clusters > 1)
      by_token<Threads>(a, sum, mine, clusters, mine == clusters - 1, base, scratch);
    else if (threadIdx.x == 0)
      *out = sum;
  } else if constexpr (V == Variant::last_block) {
    if (threadIdx.x == 0) {
      w.sums[blockIdx.x] = bits_of(sum);
      unsigned long long before;
      asm volatile("atom.acq_rel.gpu.add.u64 %0, [%1], 1;" : "=l"(before) : "l"(&w.finished) : "memory");
      scratch.last = before + 1 == base + gridDim.x;
      scratch.base = before + 1;
    }
    __syncthreads();
    if (scratch.last == 0) return;
    T const total = sum_of_sums<Threads, T>(w.sums, gridDim.x, scratch.warps_again);
    if (threadIdx.x == 0) {
      *out = total;
      store_relaxed(&w.finished_before, scratch.base);
    }
  } else if constexpr (V == Variant::grid_barrier) {
    if (threadIdx.x == 0) w.sums[blockIdx.x] = bits_of(sum);
    GridBarrier<DeadlineWatch<>> barrier({a.barrier, gridDim.x}, blockIdx.x, a.watch);
    barrier.arrive();
    if (!is_collector()) return;
    bool const ok = barrier.wait();
    T const total = sum_of_sums<Threads, T>(w.sums, gridDim.x, scratch.warps_again);
    if (threadIdx.x == 0) *out = ok ? total : no_sum<T>();
  } else if constexpr (V == Variant::cooperative) {
    if (threadIdx.x == 0) w.sums[blockIdx.x] = bits_of(sum);
    cooperative_groups::this_grid().sync();
    if (blockIdx.x != 0) return;
    T const total = sum_of_sums<Threads, T>(w.sums, gridDim.x, scratch.warps_again);
    if (threadIdx.x == 0) *out = total;
  } else {
    if (threadIdx.x == 0) w.sums[blockIdx.x] = bits_of(sum);
  }
}

}  // namespace tessera::reduction
