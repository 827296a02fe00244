// SPDX-License-Identifier: Apache-2.0
// How many blocks are on the GPU at one time: each says that it is there and stays until the call is closed.
// Nobody leaves before, so all who were counted are there together; who comes later is not counted.
#pragma once

#include "device_clock.cuh"
#include "tessera/sync/memory.cuh"

namespace tessera::probe {

/// Zeroed before each call. `close_ns` is set by the first that comes.
struct RollCall {
  unsigned closed;
  unsigned present;
  unsigned long long close_ns;
  unsigned first_present;  ///< of the kernel that is there first, where there are two
  unsigned at_sm[256];     ///< counted blocks by SM
};

/// Called by one thread of a block. Returns whether the block was counted. Never stays longer than `hold_ns`
/// after the first block came.
__device__ inline bool answer(RollCall* call, unsigned long long hold_ns) {
  if (load_acquire<Scope::device>(&call->closed) != 0) return false;
  auto const now = global_ns();
  auto const before = atomicCAS(&call->close_ns, 0ull, now + hold_ns);
  auto const close = before == 0 ? now + hold_ns : before;
  // Without the return value the block could leave before it was counted.
  atomicAdd(&call->at_sm[sm_index() % 256], 1u);
  atomicAdd(&call->present, 1u);
  while (global_ns() < close && load_acquire<Scope::device>(&call->closed) == 0) {
  }
  store_release<Scope::device>(&call->closed, 1u);
  return true;
}

}  // namespace tessera::probe
