// SPDX-License-Identifier: Apache-2.0
// Deadlines that are met: a clock that only goes on when it is looked at.
#pragma once

#include "tessera/sync/wait.cuh"

namespace tessera::support {

/// Every thread has its own: how long it waits is how often it has polled, however slow the host is and
/// whatever runs beside it.
struct FakeClock {
  static unsigned long long now() {
    static thread_local unsigned long long time = 0;
    return time += 10;
  }
};

using FakeWatch = DeadlineWatch<FakeClock>;

}  // namespace tessera::support
