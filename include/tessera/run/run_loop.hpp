// SPDX-License-Identifier: Apache-2.0
// A loop as one persistent launch of tile functions: as many iterations as each launch asks for. For files
// that nvcc compiles (C++20).
//
//   auto const plan = plan_loop(loop, machine);
//   auto chain = loop_chain(*plan, {}, step);   // a tile function for each stage of the body
//   chain->launch(stream, 1000);                // iterations
//   chain->finish();
#pragma once

#include "chain.hpp"
#include "loop_kernel.cuh"
#include "loop_tables.hpp"
#include "run_tiles.hpp"

#include <memory>

namespace tessera {

/// Tile functions that a loop's plan names.
std::size_t operations_of(LoopPlan const& plan);

struct LoopOnDevice {
  std::shared_ptr<LoopRecord const> records;  ///< owns the tiles as well
  int const* tiles = nullptr;                 ///< of each stage of the period
};
/// A copy of a loop's records on the current device. Needs the library tessera_run_gpu. E0511.
Expected<LoopOnDevice> records_on_device(LoopTables const& tables);

}  // namespace tessera

#if defined(__CUDACC__)

#include <algorithm>

namespace tessera {

/// A loop's plan with its kernel and its memory. As with Chain, launches follow each other on whatever
/// streams.
class LoopChain {
 public:
  /// Enqueues so many iterations, 0 or more (E0116). A captured launch keeps its number.
  Expected<void> launch(GpuStream stream, long long iterations) {
    auto const asked = with_iterations(*tickets_, chain_.plan().pipeline.name, iterations);
    if (!asked) return tl::make_unexpected(asked.error());
    *tickets_ = *asked;
    return chain_.launch(stream);
  }
  /// As Chain::finish().
  Expected<void> finish() { return chain_.finish(); }
  std::string const& proof() const { return chain_.proof(); }

 private:
  LoopChain(Chain chain, std::shared_ptr<LoopTickets> tickets)
      : chain_(std::move(chain)), tickets_(std::move(tickets)) {}
  template <class... Function>
  friend Expected<LoopChain> loop_chain(LoopPlan const&, ChainOptions const&, Function const&...);

  Chain chain_;
  std::shared_ptr<LoopTickets> tickets_;  ///< of the next launch; the kernel's arguments are made of them
};

/// A tile function for each stage of the loop's body, or for each of LoopPlan::operations; it finds its stage
/// and the iteration in its Context. Refuses as Chain::make() and describe_loop() do; E0510 for another
/// number of functions.
template <class... Function>
Expected<LoopChain> loop_chain(LoopPlan const& plan, ChainOptions const& options,
                               Function const&... functions) {
  std::vector<StageKernel> kernels;
  auto const tables = describe_loop(plan);
  if (!tables) return tl::make_unexpected(tables.error());
  auto const records = records_on_device(*tables);
  if (!records) return tl::make_unexpected(records.error());
  auto const tickets = std::make_shared<LoopTickets>(tables->launch(plan));

  // Another number of functions: Chain::make() refuses that there is no kernel.
  if (sizeof...(Function) == operations_of(plan)) {
    StageKernel kernel;
    kernel.function = reinterpret_cast<void const*>(&loop_tile_kernel<DeadlineWatch<>, Function...>);
    Stage largest;
    largest.resources.threads = 1;
    for (auto const& stage : plan.loop.body.stages)
      largest.resources.threads = std::max(largest.resources.threads, stage.resources.threads);
    kernel.block.x = static_cast<unsigned>(std::max({detail::threads_of<Function>(largest, 0)...}));
    kernel.dynamic_shared_bytes = std::max({detail::shared_bytes_of<Function>(0)...});
    auto const packed = detail::pack_of(functions...);
    kernel.pack = [packed, tickets, on_device = *records](ChainViews const& views,
                                                          KernelArguments& arguments) {
      arguments.add(on_device.records.get());
      arguments.add(on_device.tiles);
      arguments.add(*tickets);
      arguments.add(views.memory);
      arguments.add(views.watch());
      arguments.add(packed);
    };
    kernels.push_back(std::move(kernel));
  }
  auto chain = Chain::make(plan.plan, kernels, options);
  if (!chain) return tl::make_unexpected(chain.error());
  return LoopChain(std::move(*chain), tickets);
}

}  // namespace tessera

#endif
