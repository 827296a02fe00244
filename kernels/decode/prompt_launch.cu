// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/launches.cuh"
#include "kernels/decode/prompt_attention.cuh"
#include "kernels/few_tokens/product.cuh"

namespace tessera::decode {
namespace {

using Element = __nv_bfloat16;

template <bool Extras, int HeadSize>
Expected<Launch> prompts_of(LoopPlan const& plan, RoleOptions const& options, PromptLayerArguments const& a) {
  return launch_of(
      plan, role_chain(plan, options,
                       few_tokens::MatrixColumns<Element, k_most_prompt_rows, false, Extras>{a.products},
                       PromptAttention<Element, HeadSize, Extras>{a.attention}));
}

}  // namespace

Expected<Launch> prompt_launch(LoopPlan const& plan, RoleOptions const& options, HeadKind heads,
                               PromptLayerArguments const& arguments) {
  if (heads.size == 96) return prompts_of<true, 96>(plan, options, arguments);
  if (heads.extras)
    return heads.size == 64 ? prompts_of<true, 64>(plan, options, arguments)
                            : prompts_of<true, 128>(plan, options, arguments);
  return heads.size == 64 ? prompts_of<false, 64>(plan, options, arguments)
                          : prompts_of<false, 128>(plan, options, arguments);
}

}  // namespace tessera::decode
