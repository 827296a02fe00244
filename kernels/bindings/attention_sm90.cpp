// SPDX-License-Identifier: Apache-2.0
// Attention of prompts, as a launch of its own: its tiles wait for tiles of queries, keys and values, or for
// whole launches, and post where the plan says so.
#include "kernels/attention_sm90/attention.hpp"

#include <fmt/format.h>

#include "attention_layout.hpp"
#include "families.hpp"
#include "kernels/attention_sm90/kernel_address.hpp"

namespace tessera {

Expected<StageKernel> bind_attention_sm90(BindRequest const& request) {
  if (request.planned().workers > 0)
    return cannot_bind(request, 0, "a persistent launch of several stages", "it is a kernel of its own",
                       "let the stage be a launch of its own");
  auto const bound = attention_call(request);
  if (!bound) return tl::make_unexpected(bound.error());
  auto const info = attention_sm90::kernel_for(bound->problem, bound->tile_queries);
  if (!info) return tl::make_unexpected(info.error());
  attention_sm90::Call call;
  call.problem = bound->problem;
  call.q = bound->q, call.k = bound->k, call.v = bound->v, call.out = bound->out;
  call.tile_queries = bound->tile_queries;
  call.packed_blocks = bound->packed_blocks;
  StageKernel kernel;
  kernel.function = attention_sm90::kernel_address(bound->problem, bound->tile_queries);
  kernel.block.x = static_cast<unsigned>(info->threads);
  kernel.dynamic_shared_bytes = info->shared_bytes;
  auto const stage = static_cast<std::size_t>(request.stage_index());
  kernel.enqueue = [call, stage](ChainViews const& views, GpuStream stream, bool early) mutable {
    call.stage = views.stages[stage];
    call.memory = views.memory;
    call.watch = views.watch();
    call.programmatic = early;
    call.shared_percent = views.shared_percent;
    return static_cast<int>(attention_sm90::launch(call, stream) ? cudaSuccess : cudaErrorLaunchFailure);
  };
  return kernel;
}

}  // namespace tessera
