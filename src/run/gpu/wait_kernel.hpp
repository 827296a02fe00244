// SPDX-License-Identifier: Apache-2.0
// The one-thread kernel between two streams (cuSync, III-B), for a plan that is known at run time.
#pragma once

#include "tessera/sync/runtime_stage.cuh"

namespace tessera::run {

struct WaitKernelArguments {
  ChainMemory memory;
  int stage;                           ///< the stage that may start when the kernel ends
  unsigned long long producer_blocks;  ///< of the stage before, per launch
  DeadlineWatch<> watch;
};

/// Address of the kernel; one argument, a WaitKernelArguments. One thread.
void const* wait_kernel_address();

}  // namespace tessera::run
