// SPDX-License-Identifier: Apache-2.0
// From a chain to plain values.
#pragma once

#include <memory>

#include "kernels/decode/launches.hpp"

namespace tessera::decode {

inline Expected<Launch> launch_of(Expected<LoopChain> made) {
  if (!made) return tl::make_unexpected(made.error());
  auto const chain = std::make_shared<LoopChain>(std::move(*made));
  return Launch{[chain](GpuStream stream, long long iterations) { return chain->launch(stream, iterations); },
                [chain] { return chain->finish(); }};
}

}  // namespace tessera::decode
