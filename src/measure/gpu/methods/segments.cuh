// SPDX-License-Identifier: Apache-2.0
// Ways to synchronize the blocks of one launch between two segments of work, for the tau model: each is a
// type whose call is made by all threads after segment number `round`, and is false if a wait gave up.
#pragma once

#include <cooperative_groups.h>

#include "tessera/sync/barrier.cuh"
#include "tessera/sync/data_token.cuh"

namespace tessera::probe {

constexpr unsigned k_segment_threads = 256;
constexpr unsigned long long k_segment_deadline_ns = 500'000'000;

struct SegmentMemory {
  unsigned* words;
  Packet<1>* tokens;  ///< two for each block, by turns
  uint4* data;        ///< two for each thread, by turns
  StallRecord* stall;
  unsigned* wrong;
  float* sink;
};

// Each waits with a deadline in the first run, without in those that count.
template <class Watch>
Watch watch_of(SegmentMemory const&);
template <>
__device__ inline NoWatch watch_of<NoWatch>(SegmentMemory const&) {
  return {};
}
template <>
__device__ inline DeadlineWatch<> watch_of<DeadlineWatch<>>(SegmentMemory const& memory) {
  return {memory.stall, k_segment_deadline_ns};
}

__device__ inline unsigned neighbour(unsigned i) {
  return (blockIdx.x + (i == 0 ? 1 : gridDim.x - 1)) % gridDim.x;
}

template <class Watch>
struct CooperativeSync {
  __device__ explicit CooperativeSync(SegmentMemory const&) {}
  __device__ bool operator()(unsigned) {
    cooperative_groups::this_grid().sync();
    return true;
  }
};
template <class Watch>
struct GridSync {
  GridBarrier<Watch> barrier;
  __device__ explicit GridSync(SegmentMemory const& m)
      : barrier({m.words, gridDim.x}, blockIdx.x, watch_of<Watch>(m)) {}
  __device__ bool operator()(unsigned) { return barrier.sync(); }
};
template <class Watch>
struct PairwiseSync {
  EpochBarrier<Watch> barrier;
  __device__ explicit PairwiseSync(SegmentMemory const& m)
      : barrier({m.words, gridDim.x}, blockIdx.x, watch_of<Watch>(m)) {}
  __device__ bool operator()(unsigned) {
    barrier.arrive();
    return barrier.wait_for(2, [](unsigned i) { return neighbour(i); });
  }
};
/// Neighbours hand each other 4 bytes that carry their token: orders those and nothing else.
template <class Watch>
struct TokenSync {
  SegmentMemory memory;
  Watch watch;
  __device__ explicit TokenSync(SegmentMemory const& m) : memory(m), watch(watch_of<Watch>(m)) {}
  __device__ bool operator()(unsigned round) {
    bool ok = true;
    __syncthreads();
    if (threadIdx.x < 2) {
      Packet<1> item, items[1];
      item.payload[0] = blockIdx.x;
      unsigned const turn = round % 2 * gridDim.x;
      // 128 bytes for each block, in which only it writes.
      if (threadIdx.x == 0) put(memory.tokens + (turn + blockIdx.x) * 16, item, round);
      ok = take(memory.tokens + (turn + neighbour(threadIdx.x)) * 16, 1, round, items, watch, WaitPlace{});
      ok = ok && items[0].payload[0] == neighbour(threadIdx.x);
    }
    return together<Group::block, Watch>(ok);
  }
};
/// Every thread stores 16 bytes before, and loads those of the same thread of both neighbours after.
template <template <class> class Sync>
struct WithData {
  template <class Watch>
  struct Type {
    SegmentMemory memory;
    Sync<Watch> sync;
    __device__ explicit Type(SegmentMemory const& m) : memory(m), sync(m) {}
    __device__ bool operator()(unsigned round) {
      uint4* const now = memory.data + round % 2 * gridDim.x * k_segment_threads;
      now[blockIdx.x * k_segment_threads + threadIdx.x] = make_uint4(round, blockIdx.x, threadIdx.x, round);
      bool const ok = sync(round);
      for (unsigned i = 0; i < 2; ++i) {
        uint4 const seen = now[neighbour(i) * k_segment_threads + threadIdx.x];
        if (seen.x != round || seen.y != neighbour(i) || seen.z != threadIdx.x) atomicAdd(memory.wrong, 1u);
      }
      return ok;
    }
  };
};
/// The same with 12 bytes in each 16, and a token in the rest. No other order; a block's threads meet after.
template <class Watch>
struct TokensWithData {
  SegmentMemory memory;
  Watch watch;
  __device__ explicit TokensWithData(SegmentMemory const& m) : memory(m), watch(watch_of<Watch>(m)) {}
  __device__ bool operator()(unsigned round) {
    auto* const now = reinterpret_cast<Packet<3>*>(memory.data) + round % 2 * gridDim.x * k_segment_threads;
    put(now + blockIdx.x * k_segment_threads + threadIdx.x, Packet<3>{{round, blockIdx.x, threadIdx.x}, 0},
        round);
    bool ok = true;
    for (unsigned i = 0; i < 2; ++i) {
      Packet<3> items[1];
      ok = take(now + neighbour(i) * k_segment_threads + threadIdx.x, 1, round, items, watch, WaitPlace{}) &&
           ok;
      auto const& seen = items[0].payload;
      if (seen[0] != round || seen[1] != neighbour(i) || seen[2] != threadIdx.x) atomicAdd(memory.wrong, 1u);
    }
    return together<Group::block, Watch>(ok);
  }
};
template <class Watch>
struct ClusterSync {
  __device__ explicit ClusterSync(SegmentMemory const&) {}
  __device__ bool operator()(unsigned) {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    return true;
  }
};

}  // namespace tessera::probe
