// SPDX-License-Identifier: Apache-2.0
// The probe's experiments: one file each, which appends what it measured. Each leaves the GPU idle, launches
// nothing that can spin without a deadline, and takes a tenth of its time when `quick`.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <string>
#include <vector>

#include "tessera/measure/probe.hpp"

namespace tessera::probe {

struct Context {
  cudaDeviceProp device{};
  cudaStream_t stream = nullptr;
  bool quick = false;
  unsigned seed = 1;
};

struct Experiment {
  std::string name;  ///< as `--only` takes it
  std::string what;  ///< shown while it runs
  void (*measure)(Context const&, Probe&);
};

/// In the order in which they run, with those of other libraries (`more`) before the last of these. Each
/// throws std::runtime_error with the failed call where CUDA fails.
std::vector<Experiment> experiments(std::vector<Experiment> const& more = {});

}  // namespace tessera::probe
