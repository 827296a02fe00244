// SPDX-License-Identifier: Apache-2.0
// Who acts together in a wait or a post. On the host every group is one thread.
#pragma once

#include "config.cuh"

namespace tessera {

/// `block`: every thread of the block calls; thread 0 acts. `warp`: all 32 lanes call; lane 0 acts.
/// `thread`: the caller acts, alone.
enum class Group { thread, warp, block };

/// True for the thread that acts. x-linear over 1 to 3 block dimensions.
template <Group G>
TESSERA_HOST_DEVICE inline bool is_leader() {
#if defined(__CUDA_ARCH__)
  unsigned const thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  if constexpr (G == Group::block) return thread == 0;
  if constexpr (G == Group::warp) return thread % 32 == 0;
#endif
  return true;
}

/// Barrier of the group: what any member wrote before is visible to all members after.
template <Group G>
TESSERA_HOST_DEVICE inline void group_barrier() {
#if defined(__CUDA_ARCH__)
  if constexpr (G == Group::block) __syncthreads();
  if constexpr (G == Group::warp) __syncwarp();
#endif
}

/// Barrier that also answers, to every member, whether `yes` held for all.
template <Group G>
TESSERA_HOST_DEVICE inline bool group_all(bool yes) {
#if defined(__CUDA_ARCH__)
  if constexpr (G == Group::block) return __syncthreads_and(yes) != 0;
  if constexpr (G == Group::warp) {
    bool const all = __all_sync(0xffffffffu, yes) != 0;
    __syncwarp();
    return all;
  }
#endif
  return yes;
}

}  // namespace tessera
