// SPDX-License-Identifier: Apache-2.0
// Who acts together in a wait or a post. On the host every group is one thread.
#pragma once

#include "memory.cuh"

namespace tessera {

/// `block`: every thread of the block calls; thread 0 acts. `warp`: all 32 lanes call; lane 0 acts.
/// `thread`: the caller acts, alone. Waits for several semaphores are shared among the group.
enum class Group { thread, warp, block };

/// Which of several semaphores a thread looks at when its group waits for all of them: number `first` and
/// every `step`-th after it. Side by side, because one look takes a fifth of a microsecond.
struct Share {
  int first = 0;
  int step = 1;
};

/// x-linear over 1 to 3 block dimensions.
template <Group G>
TESSERA_HOST_DEVICE inline Share share_of() {
#if defined(__CUDA_ARCH__)
  if constexpr (G == Group::block)
    return {static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)),
            static_cast<int>(blockDim.x * blockDim.y * blockDim.z)};
  if constexpr (G == Group::warp) {
    int lane;
    // Read again each time: a register to keep through all waits costs more.
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return {lane, 32};
  }
#endif
  return {};
}

/// True for the thread that acts.
template <Group G>
TESSERA_HOST_DEVICE inline bool is_leader() {
  return share_of<G>().first == 0;
}

/// Barrier of the group: what any member wrote before is visible to all members after.
template <Group G>
TESSERA_HOST_DEVICE inline void group_barrier() {
#if defined(__CUDA_ARCH__)
  if constexpr (G == Group::block) __syncthreads();
  if constexpr (G == Group::warp) __syncwarp();
#endif
}

/// Draws one ticket for the whole block: called by all its threads, thread 0 draws. `Again`: the block may
/// have drawn here before, and a slow thread still has to read that ticket.
template <bool Again>
TESSERA_HOST_DEVICE inline unsigned long long draw_for_block(unsigned long long* counter) {
#if defined(__CUDA_ARCH__)
  __shared__ unsigned long long ticket;
  if constexpr (Again) __syncthreads();
  if (is_leader<Group::block>()) ticket = draw_ticket(counter);
  __syncthreads();
  return ticket;
#else
  return draw_ticket(counter);
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

/// How many members of a warp said yes, from the first one on without a gap. A thread, or the host, is a
/// group of one.
template <Group G>
TESSERA_HOST_DEVICE inline int leading_members(bool yes) {
  static_assert(G != Group::block, "a block's answers are not one word");
#if defined(__CUDA_ARCH__)
  if constexpr (G == Group::warp) {
    unsigned const all = __ballot_sync(0xffffffffu, yes);
    return all == 0xffffffffu ? 32 : __ffs(static_cast<int>(~all)) - 1;
  }
#endif
  return yes ? 1 : 0;
}

/// The end of a group's wait: a barrier, and whether nobody's watch gave up.
template <Group G, class Watch>
TESSERA_HOST_DEVICE inline bool together(bool ok) {
  if constexpr (Watch::may_stop) return group_all<G>(ok);
  group_barrier<G>();
  return true;
}

}  // namespace tessera
