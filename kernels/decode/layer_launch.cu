// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/attention.cuh"
#include "kernels/decode/launches.cuh"
#include "kernels/few_tokens/product.cuh"

namespace tessera::decode {
namespace {

using Element = __nv_bfloat16;

template <int N>
Expected<Launch> of_columns(LoopPlan const& plan, RoleOptions const& options, int head_size,
                            LayerArguments const& a) {
  few_tokens::MatrixColumns<Element, N, false> const products{a.products};
  if (head_size == 64)
    return launch_of(role_chain(plan, options, products, CachedAttention<Element, 64>{a.attention}));
  return launch_of(role_chain(plan, options, products, CachedAttention<Element, 128>{a.attention}));
}

}  // namespace

Expected<Launch> layer_launch(LoopPlan const& plan, RoleOptions const& options, int columns, int head_size,
                              LayerArguments const& arguments) {
  if (columns <= 8) return of_columns<8>(plan, options, head_size, arguments);
  if (columns <= 16) return of_columns<16>(plan, options, head_size, arguments);
  if (columns <= 32) return of_columns<32>(plan, options, head_size, arguments);
  return of_columns<64>(plan, options, head_size, arguments);
}

}  // namespace tessera::decode
