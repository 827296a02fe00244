// SPDX-License-Identifier: Apache-2.0
// What a sequence reads next, when its logits are there.
#pragma once

#include "kernels/decode/head.hpp"

namespace tessera::decode {

/// Takes what the head has found, and makes room for the next step. One thread of a sequence.
__device__ inline unsigned long long take_best(StepEnd const& end, int sequence) {
  auto const best = atomicExch(end.best + sequence, 0ULL);
  // One that has ended reads on, and says nothing more.
  if (!is_finite_key(best) && end.ended[sequence] == 0 && end.not_finite[sequence] == 0)
    end.not_finite[sequence] = end.cached[sequence] + 1;
  return best;
}

/// Of its prompt, or what was found, which is stored; one that has ended, or has no room left, reads its last
/// token again, at the same position: replays of a caller's graph may go on. One thread of a sequence.
__device__ inline int next_token(StepEnd const& end, int sequence, int found) {
  int* const ids = end.ids + static_cast<long long>(sequence) * end.capacity;
  int const position = end.cached[sequence] + 1;
  if (end.ended[sequence] != 0 || position >= end.capacity) return ids[position - 1];
  end.cached[sequence] = position;
  if (position < end.known[sequence]) return ids[position];
  ids[position] = found;
  for (int i = 0; i < end.stop_count; ++i)
    if (found == end.stops[i]) end.ended[sequence] = position + 1;
  return found;
}

}  // namespace tessera::decode
