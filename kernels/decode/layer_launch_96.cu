// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/layer_launch.cuh"

namespace tessera::decode {

Expected<Launch> layers_with_heads_of_96(LoopPlan const& plan, RoleOptions const& options, int columns,
                                         LayerArguments const& a) {
  return layers_of<true, 96>(plan, options, columns, a);
}

}  // namespace tessera::decode
