// SPDX-License-Identifier: Apache-2.0
// What can be simulated, decided by sizes alone: before memory is taken for it.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/diagnostic.hpp"
#include "tessera/measure/machine_profile.hpp"
#include "tessera/overlap/configure.hpp"
#include "tessera/overlap/machine.hpp"

namespace tessera::overlap {

constexpr int k_most_gpus = 1024;

/// Tiles of an output, whole or not.
struct TileGrid {
  std::int64_t columns = 0, rows = 0;
  std::int64_t tiles() const { return columns * rows; }
};
TileGrid tile_grid(GemmProblem const& problem, GemmKernel const& kernel);

/// E0544: sizes that make no sense or overflow, or a GEMM far beyond any of today, on so many GPUs.
Expected<void> check_sizes(GemmProblem const& problem, GemmKernel const& kernel, int gpus);

/// E0546: an SM of the machine cannot hold the kernel's work-groups, with fp32 accumulators in registers and
/// all stages of fp16 slices in shared memory. Precondition: check_sizes().
Expected<void> check_kernel(MachineProfile const& machine, GemmKernel const& kernel);

/// E0544: output configurations that are not the problem's. Precondition: check_sizes().
Expected<void> check_outputs(GemmProblem const& problem, GemmKernel const& kernel,
                             std::vector<OutputConfiguration> const& outputs);

/// The same of the panels of A that are gathered; none: A is there.
Expected<void> check_panels(GemmProblem const& problem, GemmKernel const& kernel,
                            std::vector<OutputConfiguration> const& panels);

/// Blocks and transfers of one GPU in a recording.
std::int64_t recorded(OutputConfiguration const& output, int wavefronts);
/// The same of a ring reduce-scatter's configuration, without it.
std::int64_t recorded_on_ring(std::int64_t tiles, int gpus, int wavefronts);

/// E0545 if the run's blocks and transfers are more than a recording holds. The hint names `tokens` that can
/// be recorded, if not 0.
Expected<void> check_recording(std::int64_t blocks_and_transfers, std::int64_t tokens = 0);

}  // namespace tessera::overlap
