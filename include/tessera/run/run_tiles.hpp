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

template <bool Records, class Watch, class Function>
StageKernel tile_kernel_of(Plan const& plan, int stage, Function const& function) {
  StageKernel kernel;
  kernel.function = reinterpret_cast<void const*>(&tile_kernel<Records, Watch, Function>);
  kernel.block.x =
      static_cast<unsigned>(threads_of<Function>(plan.pipeline.stages[static_cast<std::size_t>(stage)], 0));
  kernel.dynamic_shared_bytes = shared_bytes_of<Function>(0);
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

template <bool Records, class Watch, class... Function>
StageKernel fused_kernel_of(Plan const& plan, Function const&... functions) {
  StageKernel kernel;
  kernel.function = reinterpret_cast<void const*>(&fused_tile_kernel<Records, Watch, Function...>);
  int threads = 1;
  int stage = 0;
  ((threads =
        std::max(threads, threads_of<Function>(plan.pipeline.stages[static_cast<std::size_t>(stage++)], 0))),
   ...);
  kernel.block.x = static_cast<unsigned>(threads);
  kernel.dynamic_shared_bytes = std::max({shared_bytes_of<Function>(0)...});
  auto const packed = pack_of(functions...);
  kernel.pack = [packed](ChainViews const& views, KernelArguments& arguments) {
    StageTable<static_cast<int>(sizeof...(Function))> table;
    for (std::size_t s = 0; s < sizeof...(Function); ++s) {
      table.stage[s] = views.stages[s];
      table.record[s] = views.records[s];
    }
    arguments.add(table);
    arguments.add(views.tickets);
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

/// The kernels of a plan whose stages are tile functions, in the plan's order: one each, or one persistent
/// kernel. A tile function is a trivially copyable type with
///   __device__ void operator()(Tile, Context&) const
/// called by all threads of the block, after everything that the tile reads is there; or, with
/// `static constexpr bool waits = true`, template <class C> __device__ void operator()(Tile, C&) const, which
/// waits by itself. `static constexpr int threads` and `shared_bytes` are the block's size (else the plan's
/// Resources::threads, and no dynamic shared memory). With Watch = NoWatch a hang is for ever.
template <bool Records = false, class Watch = DeadlineWatch<>, class... Function>
std::vector<StageKernel> tile_kernels(Plan const& plan, Function const&... functions) {
  std::vector<StageKernel> kernels;
  // Too few or too many functions: Chain::make() says so.
  if (plan.stages.size() != sizeof...(Function)) {
    kernels.resize(plan.mechanism == Mechanism::fused ? plan.stages.size() + 1 : sizeof...(Function));
    return kernels;
  }
  if (plan.mechanism == Mechanism::fused) {
    kernels.push_back(detail::fused_kernel_of<Records, Watch>(plan, functions...));
    return kernels;
  }
  int stage = 0;
  (kernels.push_back(detail::tile_kernel_of<Records, Watch>(plan, stage++, functions)), ...);
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
