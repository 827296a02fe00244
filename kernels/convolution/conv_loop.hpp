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
Expected<ConvLoop> loop_of_fp16(LoopPlan const& plan, RoleOptions const& options, ConvStage const* stages);
Expected<ConvLoop> loop_of_bf16(LoopPlan const& plan, RoleOptions const& options, ConvStage const* stages);
/// What the current device has room for. E0511.
Expected<Places> places_on_device(int sms);

}  // namespace tessera::convolution
