// SPDX-License-Identifier: Apache-2.0
// The launch of a decoder's layers, for kernels with extras and without: a file each, since each takes half a
// minute to compile.
#pragma once

#include "kernels/decode/attention.cuh"
#include "kernels/decode/launches.cuh"
#include "kernels/few_tokens/product.cuh"

namespace tessera::decode {

/// `Words`: all that stages write is words, for 8 columns.
template <bool Extras, int N, bool Words = false>
Expected<Launch> layers_of_columns(LoopPlan const& plan, RoleOptions const& options, int head_size,
                                   LayerArguments const& a) {
  using Element = __nv_bfloat16;
  few_tokens::MatrixColumns<Element, N, false, Extras, Words> const products{a.products};
  if (head_size == 64)
    return launch_of(
        plan, role_chain(plan, options, products, CachedAttention<Element, 64, Extras, Words>{a.attention}));
  return launch_of(
      plan, role_chain(plan, options, products, CachedAttention<Element, 128, Extras, Words>{a.attention}));
}

template <bool Extras>
Expected<Launch> layers_of(LoopPlan const& plan, RoleOptions const& options, int columns, int head_size,
                           LayerArguments const& a) {
  if (!plan.tokens.empty()) return layers_of_columns<Extras, 8, true>(plan, options, head_size, a);
  if (columns <= 8) return layers_of_columns<Extras, 8>(plan, options, head_size, a);
  if (columns <= 16) return layers_of_columns<Extras, 16>(plan, options, head_size, a);
  if (columns <= 32) return layers_of_columns<Extras, 32>(plan, options, head_size, a);
  return layers_of_columns<Extras, 64>(plan, options, head_size, a);
}

/// With extras, in the other file.
Expected<Launch> layers_with_extras(LoopPlan const& plan, RoleOptions const& options, int columns,
                                    int head_size, LayerArguments const& a);

}  // namespace tessera::decode
