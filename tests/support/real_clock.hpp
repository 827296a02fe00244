// SPDX-License-Identifier: Apache-2.0
// Deadlines on the host's clock, for blocks that are threads.
#pragma once

#include <chrono>

#include "tessera/sync/wait.cuh"

namespace tessera::support {

struct RealClock {
  static unsigned long long now() {
    return static_cast<unsigned long long>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
};

}  // namespace tessera::support
