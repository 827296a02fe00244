// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/head.cuh"
#include "kernels/decode/launches.cuh"

namespace tessera::decode {
namespace {

using Element = __nv_bfloat16;

template <int N>
Expected<Launch> of_columns(LoopPlan const& plan, RoleOptions const& options,
                            few_tokens::Product const* product, StepEnd const& end) {
  return launch_of(role_chain(plan, options, HeadColumns<Element, N>{{product}, end}));
}

}  // namespace

Expected<Launch> head_launch(LoopPlan const& plan, RoleOptions const& options, int columns,
                             few_tokens::Product const* product, StepEnd const& end) {
  return columns <= 8 ? of_columns<8>(plan, options, product, end)
                      : of_columns<64>(plan, options, product, end);
}

}  // namespace tessera::decode
