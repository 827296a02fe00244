// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/head_launch.cuh"

namespace tessera::decode {

Expected<Launch> head_launch(LoopPlan const& plan, RoleOptions const& options, int columns, bool extras,
                             few_tokens::Product const* product, StepEnd const& end, int parts) {
  if (extras) return head_with_extras(plan, options, columns, product, end, parts);
  return head_of<false>(plan, options, columns, product, end, parts);
}

}  // namespace tessera::decode
