// SPDX-License-Identifier: Apache-2.0
// Chains of convolutions, each in one launch: compiled kernels behind plain values.
#pragma once

#include <functional>
#include <tessera/run/run_roles.hpp>

#include "kernels/convolution/chain_plan.hpp"

namespace tessera::convolution {

struct ConvLoop {
  std::function<Expected<void>(GpuStream)> launch;  ///< of all layers once
  std::function<Expected<void>()> finish;
};

/// `stages`: one for each layer, in device memory.
Expected<ConvLoop> conv_loop(LoopPlan const& plan, RoleOptions const& options, ElementType type,
                             ConvStage const* stages);
/// What the current device has room for. E0511.
Expected<Places> places_on_device(int sms);

}  // namespace tessera::convolution
