// SPDX-License-Identifier: Apache-2.0
#include "run_gpu/loop_tiles.hpp"

namespace tessera::loop_tiles {
namespace {

__device__ void delay(long long clocks) {
  long long const since = clock64();
  while (clock64() - since < clocks)
    ;
}

struct Step {
  static constexpr int threads = k_width;
  Stencil data;

  __device__ void operator()(Tile tile, Context& context) const {
    auto const* const from = data.copies[(context.iteration + 1) % 2];
    auto* const to = data.copies[context.iteration % 2];
    int const x = tile.at[0], last = data.columns - 1;
    if (data.slow > 0 && (7 * x + 3 * context.iteration) % data.slow == 0) delay(20000);
    auto const at = [&](int column) { return from[column * k_width + threadIdx.x]; };
    unsigned const left = at(x > 0 ? x - 1 : x), right = at(x < last ? x + 1 : x);
    to[x * k_width + threadIdx.x] = mixed(left, at(x), right);
  }
};

template <int Operation>
struct Add {
  static constexpr int threads = k_width;
  unsigned* values;
  int columns;

  __device__ void operator()(Tile tile, Context& context) const {
    auto const n = static_cast<unsigned>(context.iteration) * 1000u + static_cast<unsigned>(context.stage);
    auto* const own = values + (static_cast<long long>(context.stage) * columns + tile.at[0]) * k_width;
    unsigned const before =
        context.stage > 0 ? own[threadIdx.x - static_cast<long long>(columns) * k_width] : 0u;
    own[threadIdx.x] = before * 3u + n * (Operation + 1u);
  }
};

}  // namespace

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
