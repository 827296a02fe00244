// SPDX-License-Identifier: Apache-2.0
// A stall as an event, for whatever has no stalled() of its own.
#pragma once

#include "gpu/told_flag.hpp"
#include "support/real_clock.hpp"

namespace tessera::gpu {

/// Has a wait given up in anything that this thread has launched with the library, and nobody has heard of
/// it?
inline bool a_stall_is_told() { return ToldFlag{}.another_raised(); }

/// Returns when one has. False: none within a minute.
inline bool a_stall_comes() { return support::comes_true(a_stall_is_told); }

}  // namespace tessera::gpu
