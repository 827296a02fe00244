// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/launches.cuh"
#include "kernels/decode/prompt_attention.cuh"
#include "kernels/few_tokens/product.cuh"

namespace tessera::decode {
namespace {

using Element = __nv_bfloat16;

template <bool Extras>
Expected<Launch> prompts_of(LoopPlan const& plan, RoleOptions const& options, int head_size,
                            PromptLayerArguments const& a) {
  few_tokens::MatrixColumns<Element, k_most_prompt_rows, false, Extras> const products{a.products};
  if (head_size == 64)
    return launch_of(plan,
                     role_chain(plan, options, products, PromptAttention<Element, 64, Extras>{a.attention}));
  return launch_of(plan,
                   role_chain(plan, options, products, PromptAttention<Element, 128, Extras>{a.attention}));
}

}  // namespace

Expected<Launch> prompt_launch(LoopPlan const& plan, RoleOptions const& options, HeadKind heads,
                               PromptLayerArguments const& arguments) {
  return heads.extras ? prompts_of<true>(plan, options, heads.size, arguments)
                      : prompts_of<false>(plan, options, heads.size, arguments);
}

}  // namespace tessera::decode
