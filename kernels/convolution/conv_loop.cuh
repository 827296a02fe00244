// SPDX-License-Identifier: Apache-2.0
// A chain of convolutions of one type as a launch: an instance takes minutes to compile, and is a file of its
// own.
#pragma once

#include <memory>

#include "kernels/convolution/conv_loop.hpp"
#include "kernels/convolution/operation.cuh"

namespace tessera::convolution {

template <class Element>
Expected<ConvLoop> loop_of(LoopPlan const& plan, RoleOptions const& options, ConvStage const* stages) {
  auto made = role_chain(plan, options, Convolution<Element>{stages});
  if (!made) return tl::make_unexpected(made.error());
  auto const chain = std::make_shared<LoopChain>(std::move(*made));
  return ConvLoop{[chain](GpuStream stream) { return chain->launch(stream, 1); },
                  [chain] { return chain->finish(); }};
}

}  // namespace tessera::convolution
