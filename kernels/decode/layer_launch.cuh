// SPDX-License-Identifier: Apache-2.0
// The launch of a decoder's layers, for kernels with extras and without, and by the size of heads: files of
// their own, since each takes half a minute to compile.
#pragma once

#include "kernels/decode/attention.cuh"
#include "kernels/decode/launches.cuh"
#include "kernels/few_tokens/product.cuh"

namespace tessera::decode {

/// `Words`: all that stages write is words, for 8 columns.
template <bool Extras, int HeadSize, int N, bool Words = false>
Expected<Launch> layers_of_columns(LoopPlan const& plan, RoleOptions const& options,
                                   LayerArguments const& a) {
  using Element = __nv_bfloat16;
  return launch_of(
      plan, role_chain(plan, options, few_tokens::MatrixColumns<Element, N, false, Extras, Words>{a.products},
                       CachedAttention<Element, HeadSize, Extras, Words>{a.attention}));
}

template <bool Extras, int HeadSize>
Expected<Launch> layers_of(LoopPlan const& plan, RoleOptions const& options, int columns,
                           LayerArguments const& a) {
  if (!plan.tokens.empty()) return layers_of_columns<Extras, HeadSize, 8, true>(plan, options, a);
  if (columns <= 8) return layers_of_columns<Extras, HeadSize, 8>(plan, options, a);
  if (columns <= 16) return layers_of_columns<Extras, HeadSize, 16>(plan, options, a);
  if (columns <= 32) return layers_of_columns<Extras, HeadSize, 32>(plan, options, a);
  return layers_of_columns<Extras, HeadSize, 64>(plan, options, a);
}

/// With extras, and heads of 96 with them, in other files.
Expected<Launch> layers_with_extras(LoopPlan const& plan, RoleOptions const& options, int columns,
                                    int head_size, LayerArguments const& a);
Expected<Launch> layers_with_heads_of_96(LoopPlan const& plan, RoleOptions const& options, int columns,
                                         LayerArguments const& a);

}  // namespace tessera::decode
