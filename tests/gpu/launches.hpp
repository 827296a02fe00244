// SPDX-License-Identifier: Apache-2.0
// How often a test that runs on a GPU repeats itself, and how long it waits.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace tessera::gpu {

/// So many launches, or fewer where TESSERA_GPU_LAUNCHES says so: under compute-sanitizer a launch takes a
/// thousand times as long.
inline int launches(int wanted) {
  char const* const most = std::getenv("TESSERA_GPU_LAUNCHES");
  return most == nullptr ? wanted : std::min(wanted, std::atoi(most));
}

/// A deadline, or a longer one where TESSERA_GPU_DEADLINE says so. Seconds.
inline double patient(double deadline) {
  char const* const least = std::getenv("TESSERA_GPU_DEADLINE");
  return least == nullptr ? deadline : std::max(deadline, std::atof(least));
}

}  // namespace tessera::gpu
