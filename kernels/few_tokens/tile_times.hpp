// SPDX-License-Identifier: Apache-2.0
// When the warps that compute were where in a tile, for who measures.
#pragma once

#include <tessera/run/roles.cuh>
#include <tessera/sync/wait.cuh>

namespace tessera::few_tokens {

/// Nanoseconds of the GPU's clock.
struct TileTimes {
  unsigned long long begun = 0;
  unsigned long long fed = 0;  ///< the first of what stages of the launch write is there
  unsigned long long read = 0;
  unsigned long long stored = 0;  ///< by the thread that says so; the tile is not posted yet
};

#if defined(__CUDACC__)

/// Of a stage: `times` has [iteration][tile], or is null.
__device__ inline void note_time(TileTimes* times, int tiles, RoleJob const* job,
                                 unsigned long long TileTimes::*which) {
  if (times != nullptr && threadIdx.x == 0)
    (times + (job->iteration * tiles + job->tile))->*which = GlobalTimer::now();
}

#endif

}  // namespace tessera::few_tokens
