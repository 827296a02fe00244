// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/head.cuh"
#include "kernels/decode/launches.cuh"

namespace tessera::decode {
namespace {

using Element = __nv_bfloat16;

template <int N>
Expected<Launch> of_columns(LoopPlan const& plan, RoleOptions const& options,
                            few_tokens::Product const* product, StepEnd const& end, int parts) {
  return launch_of(plan, role_chain(plan, options, HeadColumns<Element, N>{{product}, end, parts}));
}

}  // namespace

Expected<Launch> head_launch(LoopPlan const& plan, RoleOptions const& options, int columns,
                             few_tokens::Product const* product, StepEnd const& end, int parts) {
  if (columns <= 8) return of_columns<8>(plan, options, product, end, parts);
  if (columns <= 16) return of_columns<16>(plan, options, product, end, parts);
  if (columns <= 32) return of_columns<32>(plan, options, product, end, parts);
  return of_columns<64>(plan, options, product, end, parts);
}

}  // namespace tessera::decode
