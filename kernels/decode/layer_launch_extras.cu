// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/layer_launch.cuh"

namespace tessera::decode {

Expected<Launch> layers_with_extras(LoopPlan const& plan, RoleOptions const& options, int columns,
                                    int head_size, LayerArguments const& a) {
  return head_size == 64 ? layers_of<true, 64>(plan, options, columns, a)
                         : layers_of<true, 128>(plan, options, columns, a);
}

}  // namespace tessera::decode
