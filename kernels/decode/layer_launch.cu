// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/layer_launch.cuh"

namespace tessera::decode {

Expected<Launch> layer_launch(LoopPlan const& plan, RoleOptions const& options, int columns, HeadKind heads,
                              LayerArguments const& arguments) {
  if (heads.size == 96) return layers_with_heads_of_96(plan, options, columns, arguments);
  if (heads.extras) return layers_with_extras(plan, options, columns, heads.size, arguments);
  return heads.size == 64 ? layers_of<false, 64>(plan, options, columns, arguments)
                          : layers_of<false, 128>(plan, options, columns, arguments);
}

}  // namespace tessera::decode
