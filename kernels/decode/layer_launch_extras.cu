// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/layer_launch.cuh"

namespace tessera::decode {

Expected<Launch> layers_with_extras(LoopPlan const& plan, RoleOptions const& options, int columns,
                                    int head_size, LayerArguments const& a) {
  return layers_of<true>(plan, options, columns, head_size, a);
}

}  // namespace tessera::decode
