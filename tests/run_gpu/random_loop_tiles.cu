// SPDX-License-Identifier: Apache-2.0
#include "run_gpu/random_loop_tiles.hpp"

#include <utility>

namespace tessera::random_loop_tiles {
namespace {

using loop_table::k_width;

/// Three tiles in 16 wait up to 20 us.
__device__ void late(std::uint64_t hash) {
  if ((hash >> 40 & 15) < 3) __nanosleep(static_cast<unsigned>(hash % 20000));
}

struct TableTile {
  static constexpr int threads = k_width;
  Device device;

  __device__ void operator()(Tile tile, Context& context) const {
    auto const& table = *device.table;
    int const i = static_cast<int>(threadIdx.x);
    auto const linear = static_cast<int>(linear_of(context.grid, tile));
    auto const place = loop_table::record_of(table, context.stage, context.iteration, linear);
    auto const round = *static_cast<std::uint64_t const volatile*>(device.round);
    auto const hash = support::mix(round, static_cast<std::uint64_t>(place));
    late(hash);
    wait_if_held(device.held, place / k_width, round);
    auto const value =
        loop_table::value_of(table, device.memory, context.stage, context.iteration, linear, i);
    context.sync();  // a tile that works in place reads all before it stores any
    late(support::mix(hash, 1));
    device.memory[loop_table::place_of(table, context.stage, context.iteration, linear) + i] = value;
    device.record[place + i] = value;
    if (i == 0) atomicAdd(device.runs + place / k_width, 1u);
  }
};

}  // namespace

struct TableLoop::State {
  LoopChain chain;
};
Expected<void> TableLoop::launch(GpuStream stream, long long iterations) {
  return state->chain.launch(stream, iterations);
}
Expected<void> TableLoop::finish() { return state->chain.finish(); }

namespace {

Expected<TableLoop> kept(Expected<LoopChain> chain) {
  if (!chain) return tl::make_unexpected(chain.error());
  TableLoop result;
  result.state = std::make_shared<TableLoop::State>(TableLoop::State{std::move(*chain)});
  return result;
}

}  // namespace

Expected<TableLoop> table_loop(LoopPlan plan, Device const& device, ChainOptions const& options) {
  plan.operations.assign(plan.loop.body.stages.size(), 0);
  return kept(loop_chain(plan, options, TableTile{device}));
}
Expected<TableLoop> table_loop(LoopPlan plan, Device const& device, RoleOptions const& options) {
  plan.operations.assign(plan.loop.body.stages.size(), 0);
  return kept(role_chain(plan, options, TableTile{device}));
}

}  // namespace tessera::random_loop_tiles
