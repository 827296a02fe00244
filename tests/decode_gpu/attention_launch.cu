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

}  // namespace

Expected<Launch> attention_alone(MachineProfile const& machine, int tiles, RoleOptions const& options,
                                 int head_size, AttentionArguments const* arguments) {
  auto const plan = plan_alone(machine, tiles);
  if (!plan) return tl::make_unexpected(plan.error());
  if (head_size == 64)
    return launch_of(role_chain(*plan, options, CachedAttention<__nv_bfloat16, 64>{arguments}));
  return launch_of(role_chain(*plan, options, CachedAttention<__nv_bfloat16, 128>{arguments}));
}

Expected<Launch> prompt_attention_alone(MachineProfile const& machine, int tiles, RoleOptions const& options,
                                        int head_size, PromptArguments const* arguments) {
  auto const plan = plan_alone(machine, tiles);
  if (!plan) return tl::make_unexpected(plan.error());
  if (head_size == 64)
    return launch_of(role_chain(*plan, options, PromptAttention<__nv_bfloat16, 64>{arguments}));
  return launch_of(role_chain(*plan, options, PromptAttention<__nv_bfloat16, 128>{arguments}));
}

}  // namespace tessera::decode
