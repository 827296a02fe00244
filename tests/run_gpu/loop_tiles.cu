// SPDX-License-Identifier: Apache-2.0
#include "run_gpu/loop_functions.cuh"

namespace tessera::loop_tiles {

struct StencilLoop::State {
  LoopChain chain;
};
Expected<StencilLoop> StencilLoop::make(LoopPlan const& plan, Stencil const& data,
                                        ChainOptions const& options) {
  auto chain = loop_chain(plan, options, Step{data});
  if (!chain) return tl::make_unexpected(chain.error());
  StencilLoop result;
  result.state_ = std::make_shared<State>(State{std::move(*chain)});
  return result;
}
Expected<void> StencilLoop::launch(GpuStream stream, long long iterations) {
  return state_->chain.launch(stream, iterations);
}
Expected<void> StencilLoop::finish() { return state_->chain.finish(); }

struct ManyStages::State {
  LoopChain chain;
};
Expected<ManyStages> ManyStages::make(LoopPlan const& plan, unsigned* values, ChainOptions const& options) {
  auto const columns = static_cast<int>(plan.loop.body.stages[0].tiles());
  auto chain =
      loop_chain(plan, options, Add<0>{values, columns}, Add<1>{values, columns}, Add<2>{values, columns});
  if (!chain) return tl::make_unexpected(chain.error());
  ManyStages result;
  result.state_ = std::make_shared<State>(State{std::move(*chain)});
  return result;
}
Expected<void> ManyStages::launch(GpuStream stream, long long iterations) {
  return state_->chain.launch(stream, iterations);
}
Expected<void> ManyStages::finish() { return state_->chain.finish(); }

}  // namespace tessera::loop_tiles
