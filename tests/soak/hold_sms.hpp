// SPDX-License-Identifier: Apache-2.0
// A kernel that keeps SMs from others.
#pragma once

#include "tessera/run/chain.hpp"

namespace tessera::soak {

/// Loads the kernel, so that it can start beside others. CUDA's error.
int prepare_to_hold();

/// `blocks` blocks that leave no room for another on their SM, each for so many milliseconds. CUDA's error.
int hold_sms(int blocks, int milliseconds, GpuStream stream);

}  // namespace tessera::soak
