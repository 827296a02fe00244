// SPDX-License-Identifier: Apache-2.0
// A wait that ends: everything that spins has one.
#pragma once

#include "device_clock.cuh"

namespace tessera::probe {

/// Polls `met()` until it says so or `most_ns` have gone by; returns whether it did. The clock is read at
/// every 64th poll, so that a hop does not wait for it.
template <class Met>
__device__ inline bool wait_until(Met met, unsigned long long most_ns) {
  for (int i = 1; i < 64; ++i)
    if (met()) return true;
  unsigned long long const end = global_ns() + most_ns;
  for (unsigned polls = 0;; ++polls) {
    if (met()) return true;
    if (polls % 64 == 63 && global_ns() > end) return false;
  }
}

}  // namespace tessera::probe
