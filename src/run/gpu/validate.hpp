// SPDX-License-Identifier: Apache-2.0
// Holds compiled kernels to what their plan assumed.
#pragma once

#include <string>
#include <vector>

#include "tessera/measure/machine_profile.hpp"
#include "tessera/plan/sm_claim.hpp"
#include "tessera/run/chain.hpp"

namespace tessera::run {

struct Validated {
  MachineProfile device;  ///< what the current device's SMs can hold
  int compute_major = 0;
  bool cooperative = false;          ///< the device can launch all of a grid's blocks or none
  std::vector<int> occupancies;      ///< one per kernel
  std::vector<Resources> resources;  ///< of a block of each
  int shared_percent = -1;           ///< ChainViews::shared_percent
  SmClaim claim;                     ///< what it asks of SMs beside other chains
  std::string proof;
  Diagnostics warnings;
};

/// What a kernel was compiled for, as cudaFuncAttributes say, and where it would run.
struct Target {
  std::string device;
  int compute_major = 0;
  std::string kernel;
  int ptx_version = 0;
  int binary_version = 0;
};

/// For a kernel that starts early or lets the next one do so: refuses what would start early and then not
/// wait (E0516, E0517). PDL's instructions are compiled out below sm_90, and the launch attribute is not.
Expected<void> check_target(Target const& target, SourceLine const& where);

/// "gemm1", "gemm1 + gemm2": the stages of a launch.
std::string launch_name(Plan const& plan, Launch const& launch);
/// Blocks of its grid: workers, a persistent grid's, or one for each split of each tile.
std::int64_t launched_blocks(Plan const& plan, Launch const& launch);

/// Also loads the kernels, and lets them use as much dynamic shared memory as they ask for; what others have
/// asked for the same kernels stays allowed.
Expected<Validated> validate(Plan const& plan, std::vector<StageKernel> const& kernels,
                             ChainOptions const& options);

}  // namespace tessera::run
