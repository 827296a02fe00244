// SPDX-License-Identifier: Apache-2.0
// What an SM of this device holds, as the planner's occupancy rules take it.
#pragma once

#include <cuda_runtime.h>

#include "tessera/measure/machine_profile.hpp"

namespace tessera::probe {

/// The profile with what the device tells of its SMs. The granularities it does not tell: the profile's own
/// are those of every architecture since Volta.
inline MachineProfile limits_of(cudaDeviceProp const& device, MachineProfile m = {}) {
  m.name = "this device";
  m.sms = device.multiProcessorCount;
  m.threads_per_sm = device.maxThreadsPerMultiProcessor;
  m.blocks_per_sm = device.maxBlocksPerMultiProcessor;
  m.registers_per_sm = device.regsPerMultiprocessor;
  m.shared_bytes_per_sm = static_cast<int>(device.sharedMemPerMultiprocessor);
  m.shared_bytes_per_block = static_cast<int>(device.sharedMemPerBlockOptin);
  m.shared_reserved_per_block = static_cast<int>(device.reservedSharedMemPerBlock);
  return m;
}

/// What one block of a compiled kernel takes.
inline Resources resources_of(cudaFuncAttributes const& kernel, int threads, std::size_t dynamic_shared) {
  return {threads, kernel.numRegs, static_cast<int>(kernel.sharedSizeBytes + dynamic_shared)};
}

}  // namespace tessera::probe
