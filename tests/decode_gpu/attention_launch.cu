// SPDX-License-Identifier: Apache-2.0
#include "decode_gpu/attention_launch.hpp"

#include <cuda_bf16.h>

#include <tessera/describe/dsl.hpp>

#include "kernels/decode/attention.cuh"
#include "kernels/decode/launches.cuh"
#include "kernels/decode/prompt_attention.cuh"
#include "kernels/few_tokens/product_cut.hpp"

namespace tessera::decode {
namespace {

Expected<LoopPlan> plan_alone(MachineProfile const& machine, int tiles) {
  PipelineBuilder pipeline("attention_alone");
  auto [t] = pipeline.dims("t");
  auto attention = pipeline.stage("attention", {t = tiles}).output("attended");
  attention.resources(few_tokens::product_resources());
  auto const loop = pipeline.build_loop();
  if (!loop) return tl::make_unexpected(loop.error());
  return plan_loop(*loop, machine, machine.sms);
}

template <template <class, int, bool> class Attention, class Arguments>
Expected<Launch> alone(MachineProfile const& machine, int tiles, RoleOptions const& options, HeadKind heads,
                       Arguments const* arguments) {
  auto const plan = plan_alone(machine, tiles);
  if (!plan) return tl::make_unexpected(plan.error());
  using Element = __nv_bfloat16;
  auto const made = [&](auto operation) { return launch_of(*plan, role_chain(*plan, options, operation)); };
  if (heads.size == 96) return made(Attention<Element, 96, true>{arguments});
  if (heads.size == 64)
    return heads.extras ? made(Attention<Element, 64, true>{arguments})
                        : made(Attention<Element, 64, false>{arguments});
  return heads.extras ? made(Attention<Element, 128, true>{arguments})
                      : made(Attention<Element, 128, false>{arguments});
}

}  // namespace

Expected<Launch> attention_alone(MachineProfile const& machine, int tiles, RoleOptions const& options,
                                 HeadKind heads, AttentionArguments const* arguments) {
  return alone<CachedAttention>(machine, tiles, options, heads, arguments);
}

Expected<Launch> prompt_attention_alone(MachineProfile const& machine, int tiles, RoleOptions const& options,
                                        HeadKind heads, PromptArguments const* arguments) {
  return alone<PromptAttention>(machine, tiles, options, heads, arguments);
}

}  // namespace tessera::decode
