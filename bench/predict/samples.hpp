// SPDX-License-Identifier: Apache-2.0
// What the programs that measure GEMMs for the simulator share: calls that must succeed, and the middle of
// samples.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace tessera::bench {

/// Ends the program, which says `what` failed.
inline void check(cudaError_t error, char const* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

/// The upper one of two in the middle; 0 of none.
inline double median(std::vector<double> samples) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

}  // namespace tessera::bench
