// SPDX-License-Identifier: Apache-2.0
// How many GPUs a test or a benchmark of several GPUs is to use: TESSERA_GPUS in the environment, or two.
#pragma once

#include <cstdlib>
#include <numeric>
#include <vector>

namespace tessera::bench {

/// 2 to 16; what the variable says otherwise is taken as 2.
inline int asked_gpus() {
  constexpr int k_least = 2, k_most = 16;
  char const* const text = std::getenv("TESSERA_GPUS");
  int const number = text != nullptr ? std::atoi(text) : k_least;
  return number >= k_least && number <= k_most ? number : k_least;
}

/// As many devices, from the first one on.
inline std::vector<int> asked_devices() {
  std::vector<int> devices(static_cast<std::size_t>(asked_gpus()));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

}  // namespace tessera::bench
