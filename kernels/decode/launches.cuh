// SPDX-License-Identifier: Apache-2.0
// From a chain to plain values.
#pragma once

#include <memory>

#include "kernels/decode/launches.hpp"

namespace tessera::decode {

inline Expected<Launch> launch_of(LoopPlan const& plan, Expected<LoopChain> made) {
  if (!made) return tl::make_unexpected(made.error());
  auto const chain = std::make_shared<LoopChain>(std::move(*made));
  return Launch{std::make_shared<LoopPlan const>(plan),
                [chain](GpuStream stream, long long iterations) { return chain->launch(stream, iterations); },
                [chain](GpuStream stream, std::function<int(GpuStream)> const& enqueue) {
                  return chain->replay(stream, enqueue);
                },
                [chain] { return chain->finish(); }, [chain] { return chain->last_stall(); }};
}

}  // namespace tessera::decode
