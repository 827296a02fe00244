// SPDX-License-Identifier: Apache-2.0
// Thread-block clusters: places in other blocks' shared memory, and stores there that count themselves at a
// barrier, one function for each instruction. For sm_90 and later. Addresses of shared memory are 32-bit.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

namespace tessera {

/// Blocks of the calling block's cluster; 1: the launch has none. Asked again rather than kept in a register.
__device__ inline unsigned cluster_blocks() {
  unsigned blocks;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return blocks;
}
/// The calling block's number in its cluster.
__device__ inline unsigned cluster_rank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
/// The same place in block `rank` of the cluster.
__device__ inline unsigned in_block(unsigned address, unsigned rank) {
  unsigned mapped;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
  return mapped;
}

/// The cluster's own barrier, by whole warps: all threads of the cluster that have not left arrive.
__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
/// The same, where nothing that the calling thread stored is given away but barriers, behind
/// fence_barrier_init(): without a fence.
__device__ inline void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
/// The same by threads whose warp may have parted.
__device__ inline void cluster_sync_parted() {
  asm volatile("barrier.cluster.arrive.release;\n barrier.cluster.wait.acquire;" ::: "memory");
}

/// Arrives at a barrier of another block of the cluster; `barrier` is from in_block().
__device__ inline void barrier_arrive_remote(unsigned barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// The same, where nothing that this thread read or wrote by itself is given away: without a fence.
__device__ inline void barrier_arrive_remote_relaxed(unsigned barrier) {
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// barrier_try() of a barrier at which another block arrives or counts bytes.
__device__ inline bool barrier_try_cluster(unsigned barrier, unsigned parity) {
  unsigned yes;
  asm volatile(
      "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; "
      "selp.u32 %0, 1, 0, p; }"
      : "=r"(yes)
      : "r"(barrier), "r"(parity)
      : "memory");
  return yes != 0;
}
/// Stores 16 bytes in another block of the cluster and counts them at a barrier there.
__device__ inline void store_remote(unsigned to, unsigned barrier, float a, float b, float c, float d) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
      "f"(a), "f"(b), "f"(c), "f"(d), "r"(barrier)
      : "memory");
}
/// The same with 4 bytes.
__device__ inline void store_remote(unsigned to, unsigned barrier, float value) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to),
               "f"(value), "r"(barrier)
               : "memory");
}

/// Floats of another block's shared memory, behind a barrier of the cluster; `from` is from in_block().
__device__ inline float load_remote_float(unsigned from) {
  float value;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(from) : "memory");
  return value;
}
__device__ inline float2 load_remote_pair(unsigned from) {
  float2 value;
  asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];"
               : "=f"(value.x), "=f"(value.y)
               : "r"(from)
               : "memory");
  return value;
}

}  // namespace tessera

#endif
