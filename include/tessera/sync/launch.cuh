// SPDX-License-Identifier: Apache-2.0
// Programmatic dependent launch and the fence between ordinary and TMA accesses. Nothing happens below
// sm_90 or on the host.
#pragma once

#include "config.cuh"

namespace tessera {

/// Lets the next kernel of the stream start once every block has called this or left. Called by one thread or
/// more of each block. Promises neither an early start nor that anything is visible.
TESSERA_HOST_DEVICE inline void pdl_trigger() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Waits until the kernels before are complete, with all their writes visible to the calling thread. Acts for
/// that thread only. Returns at once when the kernel was launched without the programmatic attribute.
/// Never hangs: a kernel before never waits for a later one.
TESSERA_HOST_DEVICE inline void pdl_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Orders this thread's ordinary accesses to global memory before, with its TMA (async proxy) accesses after,
/// and the other way round. Called
///  - by the thread that issues a TMA load of a tile, after its wait and before the load;
///  - by every thread that wrote a tile with ordinary stores, before the barrier of the post, when the
///  consumer
///    reads the tile through TMA.
/// A tile that was written by TMA needs wait_for_tma_stores() in the issuing thread before the post instead.
TESSERA_HOST_DEVICE inline void fence_proxy_async() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.global;" ::: "memory");
#endif
}

/// Waits until the bulk stores that this thread has issued and committed are complete: not `.read`, which is
/// enough to use the shared memory again, but the writes themselves. Returns at once in a thread that issued
/// none.
TESSERA_HOST_DEVICE inline void wait_for_tma_stores() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  asm volatile("fence.proxy.async.global;" ::: "memory");
#endif
}

}  // namespace tessera
