// SPDX-License-Identifier: Apache-2.0
// A tile that is computed only when somebody has given up waiting for it.
#pragma once

#include <cstdint>

#include "tessera/sync/wait.cuh"

namespace tessera {

/// One tile in one round. It waits until the word is not 0, in device memory (StallRecord::state) or in
/// pinned host memory, and no longer than its limit: perhaps nobody waits for it.
struct HeldTile {
  std::uint64_t round = 0;
  std::int64_t place = 0;  ///< which tile
  unsigned const* until = nullptr;
  unsigned long long limit_ns = 0;
};

#if defined(__CUDACC__)

/// Called before a tile is computed. `held` is read anew, since the host changes it between launches; null:
/// no tile is held.
__device__ inline void wait_if_held(HeldTile const* held, std::int64_t place, std::uint64_t round) {
  if (held == nullptr) return;
  HeldTile const volatile& tile = *held;
  if (tile.round != round || tile.place != place) return;
  unsigned const volatile* const until = tile.until;
  auto const since = GlobalTimer::now();
  while (*until == 0 && GlobalTimer::now() - since < tile.limit_ns) __nanosleep(1000);
}

#endif

}  // namespace tessera
