// SPDX-License-Identifier: Apache-2.0
// Holds compiled kernels to what their plan assumed.
#pragma once

#include <string>
#include <vector>

#include "tessera/measure/machine_profile.hpp"
#include "tessera/run/chain.hpp"

namespace tessera::run {

struct Validated {
  MachineProfile device;  ///< what the current device's SMs can hold
  int compute_major = 0;
  std::vector<int> occupancies;  ///< one per kernel
  std::string proof;
  Diagnostics warnings;
};

/// Also loads the kernels, and lets them use as much dynamic shared memory as they ask for.
Expected<Validated> validate(Plan const& plan, std::vector<StageKernel> const& kernels,
                             ChainOptions const& options);

}  // namespace tessera::run
