// SPDX-License-Identifier: Apache-2.0
// Who of several tiles ends last, and so sees what all have stored: nobody waits for anybody.
#pragma once

namespace tessera::decode {

/// All threads that compute, when each has stored. Behind a barrier of theirs, which anyone_stopped() is, one
/// fences before it counts and after, at device scope: release and acquire for all of them. True in the tile
/// that is the last of `tiles`; it may read what the others stored, past the L1. The counter is 0 again then.
/// False after a stall.
template <class Computer>
__device__ bool last_to_arrive(Computer& computer, unsigned* arrived, unsigned tiles) {
  if (computer.anyone_stopped()) return false;
  bool last = false;
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicInc(arrived, tiles - 1) == tiles - 1;
    __threadfence();
  }
  return computer.anyone(last);
}

}  // namespace tessera::decode
