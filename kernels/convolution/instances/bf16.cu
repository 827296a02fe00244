// SPDX-License-Identifier: Apache-2.0
#include "kernels/convolution/conv_loop.cuh"

namespace tessera::convolution {

Expected<ConvLoop> loop_of_bf16(LoopPlan const& plan, RoleOptions const& options, ConvStage const* stages) {
  return loop_of<__nv_bfloat16>(plan, options, stages);
}

}  // namespace tessera::convolution
