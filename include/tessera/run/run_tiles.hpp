// SPDX-License-Identifier: Apache-2.0
// A plan's stages as tile functions: the library makes the kernels, the plan decides how they are run. For
// files that nvcc compiles (C++20); elsewhere this header only brings chain.hpp.
#pragma once

#include "chain.hpp"
#include "tile_kernel.cuh"

#if defined(__CUDACC__)
#include <algorithm>
#endif

namespace tessera {

#if defined(__CUDACC__)

namespace detail {

template <class Function>
constexpr auto threads_of(Stage const&, int) -> decltype(static_cast<int>(Function::threads)) {
  return Function::threads;
}
template <class Function>
constexpr int threads_of(Stage const& stage, ...) {
  return stage.resources.threads;
}

/// The persistent kernel of one launch: its block and its shared memory are the largest of its own stages.
template <bool Records, class Watch, class... Function>
StageKernel worker_kernel_of(Plan const& plan, std::size_t index, Function const&... functions) {
  auto const& launch = plan.launches[index];
  StageKernel kernel;
  kernel.function = reinterpret_cast<void const*>(&fused_tile_kernel<Records, Watch, Function...>);
  int threads = 1;
  int stage = 0;
  auto const add = [&](int own_threads, int shared_bytes) {
    if (launch.holds(stage)) {
      threads = std::max(threads, own_threads);
      kernel.dynamic_shared_bytes = std::max(kernel.dynamic_shared_bytes, shared_bytes);
    }
    ++stage;
  };
  (add(threads_of<Function>(plan.pipeline.stages[static_cast<std::size_t>(stage)], 0),
       shared_bytes_of<Function>(0)),
   ...);
  kernel.block.x = static_cast<unsigned>(threads);
  auto const packed = pack_of(functions...);
  kernel.pack = [packed, index](ChainViews const& views, KernelArguments& arguments) {
    StageTable<static_cast<int>(sizeof...(Function))> table;
    for (std::size_t s = 0; s < sizeof...(Function); ++s) {
      table.stage[s] = views.stages[s];
      table.record[s] = views.records[s];
    }
    arguments.add(table);
    arguments.add(views.tickets[index]);
    arguments.add(views.memory);
    if constexpr (Watch::may_stop)
      arguments.add(views.watch());
    else
      arguments.add(Watch{});
    arguments.add(packed);
  };
  return kernel;
}

}  // namespace detail

/// The kernel of a stage that is a launch of its own, as a tile function: what a binding of tile functions
/// returns. What a tile function is, tile_kernels() says.
template <bool Records = false, class Watch = DeadlineWatch<>, class Function>
StageKernel stage_kernel(Plan const& plan, int stage, Function const& function) {
  StageKernel kernel;
  kernel.function = reinterpret_cast<void const*>(&tile_kernel<Records, Watch, Function>);
  kernel.block.x = static_cast<unsigned>(
      detail::threads_of<Function>(plan.pipeline.stages[static_cast<std::size_t>(stage)], 0));
  kernel.dynamic_shared_bytes = detail::shared_bytes_of<Function>(0);
  kernel.pack = [stage, function](ChainViews const& views, KernelArguments& arguments) {
    auto const s = static_cast<std::size_t>(stage);
    arguments.add(views.stages[s]);
    arguments.add(views.memory);
    if constexpr (Watch::may_stop)
      arguments.add(views.watch());
    else
      arguments.add(Watch{});
    arguments.add(views.records[s]);
    arguments.add(function);
  };
  return kernel;
}

/// The kernels of a plan whose stages are tile functions: one for each of its launches. A tile function is a
/// trivially copyable type with
///   __device__ void operator()(Tile, Context&) const
/// called by all threads of the block, after everything that the tile reads is there; or, with
/// `static constexpr bool waits = true`, template <class C> __device__ void operator()(Tile, C&) const, which
/// waits by itself. `static constexpr int threads` and `shared_bytes` are the block's size (else the plan's
/// Resources::threads, and no dynamic shared memory). With Watch = NoWatch a hang is for ever.
template <bool Records = false, class Watch = DeadlineWatch<>, class... Function>
std::vector<StageKernel> tile_kernels(Plan const& plan, Function const&... functions) {
  // Too few or too many functions: Chain::make() refuses another number of kernels than launches.
  if (plan.stages.size() != sizeof...(Function)) return {};
  std::vector<StageKernel> kernels(plan.launches.size());
  for (std::size_t l = 0; l < kernels.size(); ++l)
    if (plan.launches[l].workers > 0)
      kernels[l] = detail::worker_kernel_of<Records, Watch>(plan, l, functions...);
  int stage = 0;
  auto const add = [&](auto const& function) {
    auto const launch = static_cast<std::size_t>(launch_of(plan, stage));
    if (plan.launches[launch].workers == 0)
      kernels[launch] = stage_kernel<Records, Watch>(plan, stage, function);
    ++stage;
  };
  (add(functions), ...);
  return kernels;
}

/// A chain of tile functions, with deadlines and without time stamps; for others call tile_kernels().
template <class... Function>
Expected<Chain> tile_chain(Plan const& plan, ChainOptions const& options, Function const&... functions) {
  return Chain::make(plan, tile_kernels(plan, functions...), options);
}

/// Runs a plan once: makes the chain, launches it, waits for it. To run it often, keep a tile_chain().
template <class... Function>
Expected<void> run_tiles(Plan const& plan, GpuStream stream, Function const&... functions) {
  auto chain = tile_chain(plan, {}, functions...);
  if (!chain) return tl::make_unexpected(chain.error());
  if (auto launched = chain->launch(stream); !launched) return launched;
  return chain->finish();
}

#endif

}  // namespace tessera
