// SPDX-License-Identifier: Apache-2.0
// Blocks of a cluster hand data to each other through distributed shared memory, round after round. Barriers
// in shared memory, because the cluster's own waits for all threads of its blocks, and those that stream
// weights cannot join it.
#pragma once

#include "hand_over.cuh"
#include "tessera/sync/cluster.cuh"

namespace tessera::probe {

enum class ClusterWay {
  arrival,  ///< stores, then a release arrival at each one's barrier
  async     ///< stores that count their bytes at the barrier where they land
};

/// The second form adds its bytes to `barrier`, of the same block.
__device__ inline void store_in(unsigned to, uint4 const& v) {
  asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
}
__device__ inline void store_in(unsigned to, uint4 const& v, unsigned barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
      "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(barrier)
      : "memory");
}

/// A block of a cluster, seen by one of its threads. In every round each says to every other that it is
/// there, whoever sends: so none can be two rounds ahead, and two copies and two barriers are enough.
template <ClusterWay Way, bool All>
struct ClusterMember {
  HandOver const& x;
  unsigned barriers;  ///< two, in shared memory
  unsigned inbox;     ///< two rounds' data, and 16 bytes for each block

  unsigned const me = cluster_rank();
  unsigned const size = static_cast<unsigned>(x.members);
  unsigned const vectors = static_cast<unsigned>(x.share) / 16;
  unsigned const count = All ? size * vectors : vectors;
  unsigned wrong = 0;

  __device__ unsigned barrier(unsigned round) const { return barriers + round % 2 * 8; }
  __device__ unsigned data(unsigned round) const { return inbox + round % 2 * count * 16; }
  __device__ bool sends(unsigned round) const { return All || (round - 1) % 2 == me; }

  /// One thread, before the cluster's first barrier.
  __device__ void begin() const {
    for (unsigned b = 0; b < 2; ++b) barrier_init(barrier(b), Way == ClusterWay::async ? 1 : size);
  }

  __device__ void send(unsigned round) const {
    if (Way == ClusterWay::async && threadIdx.x == 0)
      barrier_expect(barrier(round), 16 * (All            ? size * vectors
                                           : sends(round) ? size - 1
                                                          : vectors + size - 2));
    unsigned const offset = All ? me * vectors : 0;
    for (unsigned to = 0; to < size; ++to) {
      if (!All && to == me) continue;
      unsigned const there = in_block(data(round), to), arrived = in_block(barrier(round), to);
      if (sends(round)) {
        for (unsigned v = offset + threadIdx.x; v < offset + vectors; v += k_hand_threads)
          if constexpr (Way == ClusterWay::async)
            store_in(there + v * 16, handed_vector(round, v), arrived);
          else
            store_in(there + v * 16, handed_vector(round, v));
      } else if (Way == ClusterWay::async && threadIdx.x == 0) {
        store_in(in_block(inbox + (2 * count + me) * 16, to), make_uint4(round, 0, 0, 0), arrived);
      }
    }
    if constexpr (Way == ClusterWay::arrival) {
      hand_sync();
      if (threadIdx.x < size) barrier_arrive_remote(in_block(barrier(round), threadIdx.x));
    }
  }

  __device__ bool receive(unsigned round) {
    bool const ok =
        wait_until([&] { return barrier_try_cluster(barrier(round), (round - 1) / 2 % 2); }, 50'000'000);
    if (All || !sends(round))
      for (unsigned v = threadIdx.x; v < count; v += k_hand_threads) {
        uint4 seen;
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(seen.x), "=r"(seen.y), "=r"(seen.z), "=r"(seen.w)
                     : "r"(data(round) + v * 16)
                     : "memory");
        wrong += differ(seen, handed_vector(round, v));
      }
    return hand_all(ok);
  }
};

/// Members are the blocks of a cluster; with one sender those of one cluster, while others stream.
/// Dynamic shared memory: the stream's, then ClusterMember::inbox.
template <ClusterWay Way, bool All>
__global__ void __launch_bounds__(k_hand_threads + 32 * k_stream_warps, 1)
    hand_over_cluster(HandOver x, MemoryStream stream) {
  extern __shared__ uint4 room[];
  __shared__ alignas(8) unsigned long long stream_barriers[k_stream_warps * k_stream_most_slots];
  __shared__ alignas(8) unsigned long long barriers[2];
  unsigned const slots = (shared_address(room) + 127) / 128 * 128;
  ClusterMember<Way, All> member{
      x, shared_address(barriers),
      slots + static_cast<unsigned>(k_stream_warps * stream.slots * k_stream_chunk)};
  if (threadIdx.x == 0) {
    member.begin();
    fence_barrier_init();
  }
  cluster_arrive();
  cluster_wait();
  unsigned const clusters = gridDim.x / member.size;
  unsigned const cluster = (blockIdx.x / member.size + x.shift) % clusters;
  if (threadIdx.x >= k_hand_threads) {
    stream_memory(stream, static_cast<int>(threadIdx.x - k_hand_threads) / 32, slots,
                  shared_address(stream_barriers));
  } else if (All || cluster == 0) {
    if (stream.slots > 0) spin_cycles(40'000);
    bool const first = cluster == 0 && member.me == 0 && threadIdx.x == 0;
    HandTimer<All> timer(x);
    for (unsigned round = 1; round <= static_cast<unsigned>(x.rounds); ++round) {
      member.send(round);
      if (!member.receive(round)) {
        ++member.wrong;
        break;
      }
      if (first) timer.stamp(round);
    }
    if (first) timer.end();
    if (member.wrong != 0) atomicAdd(x.wrong, member.wrong);
  }
  __syncwarp();
  // Nobody leaves while others may store into its shared memory.
  cluster_arrive();
  cluster_wait();
}

}  // namespace tessera::probe
