// SPDX-License-Identifier: Apache-2.0
// How often a test that runs on a GPU repeats itself.
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

}  // namespace tessera::gpu
