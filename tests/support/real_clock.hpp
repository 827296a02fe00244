// SPDX-License-Identifier: Apache-2.0
// Deadlines on the host's clock, for blocks that are threads.
#pragma once

#include <chrono>
#include <thread>

#include "tessera/sync/wait.cuh"

namespace tessera::support {

/// Whoever looks at it lets other threads go first: there may be fewer cores than blocks.
struct RealClock {
  static unsigned long long now() {
    std::this_thread::yield();
    return static_cast<unsigned long long>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
};

/// The deadline of a wait for what does come: no busy host takes so long, and a hang ends before the test's
/// own limit.
constexpr std::chrono::seconds k_patience{60};
constexpr unsigned long long k_patience_ns = 60'000'000'000;

using RealWatch = DeadlineWatch<RealClock>;

/// Lets other threads run until the condition holds. False: it did not within k_patience, a hang.
template <class Condition>
bool comes_true(Condition const& condition) {
  auto const since = std::chrono::steady_clock::now();
  while (!condition()) {
    if (std::chrono::steady_clock::now() - since > k_patience) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace tessera::support
