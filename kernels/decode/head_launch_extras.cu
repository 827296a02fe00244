// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/head_launch.cuh"

namespace tessera::decode {

Expected<Launch> head_with_extras(LoopPlan const& plan, RoleOptions const& options, int columns,
                                  few_tokens::Product const* product, StepEnd const& end, int parts) {
  return head_of<true>(plan, options, columns, product, end, parts);
}

}  // namespace tessera::decode
