// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/layer_launch.cuh"

namespace tessera::decode {

Expected<Launch> layer_launch(LoopPlan const& plan, RoleOptions const& options, int columns, HeadKind heads,
                              LayerArguments const& arguments) {
  if (heads.extras) return layers_with_extras(plan, options, columns, heads.size, arguments);
  return layers_of<false>(plan, options, columns, heads.size, arguments);
}

}  // namespace tessera::decode
