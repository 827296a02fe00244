// SPDX-License-Identifier: Apache-2.0
// A hash of values in their order: one value that is other, missing or twice changes the result. The same on
// the GPU and on the CPU.
#pragma once

#include <cstdint>

#include "tessera/sync/config.cuh"

namespace tessera::support {

TESSERA_HOST_DEVICE constexpr std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15ull;
  return h ^ (h >> 29);
}

}  // namespace tessera::support
