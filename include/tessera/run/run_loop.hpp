// SPDX-License-Identifier: Apache-2.0
// A loop of tile functions, as many iterations as each launch asks for: in one persistent launch, or in
// launches that overlap, as its plan says. For files that nvcc compiles (C++20).
//
//   auto const plan = plan_loop(loop, machine);   // or plan_loop_launches(loop, machine)
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

struct LoopOnDevice {
  std::shared_ptr<LoopRecord const> records;  ///< owns the tiles, and what the stages point to
  int const* tiles = nullptr;                 ///< of each stage of the period
  std::vector<LoopRecord> stages;             ///< the records again, on the host
};
/// A copy of a loop's records on the current device. Needs the library tessera_run_gpu. E0511.
Expected<LoopOnDevice> records_on_device(LoopTables const& tables);
/// A copy of bytes on the current device, 256-byte aligned; `what` it is, for a report. E0511.
Expected<std::shared_ptr<void const>> copy_on_device(void const* from, std::size_t bytes,
                                                     std::string const& what);

}  // namespace tessera

#if defined(__CUDACC__)

#include <algorithm>

namespace tessera {

struct RoleOptions;  // run_roles.hpp

/// A loop's plan with its kernels and its memory. As with Chain, launches follow each other on whatever
/// streams: iterations overlap those of the same launch. Neither it nor its graphs have a timeline.
class LoopChain {
 public:
  /// Enqueues so many iterations, 0 or more (E0116). A captured launch keeps its number.
  Expected<void> launch(GpuStream stream, long long iterations) {
    auto const times = ask(iterations);
    if (!times) return tl::make_unexpected(times.error());
    return chain_.launch(stream, 0, *times);
  }
  /// Captures so many iterations into a graph, which must not outlive the chain.
  Expected<ChainGraph> capture(long long iterations) {
    auto const times = ask(iterations);
    if (!times) return tl::make_unexpected(times.error());
    return chain_.capture(0, *times);
  }
  /// As Chain::replay().
  Expected<void> replay(GpuStream stream, std::function<int(GpuStream)> const& enqueue) {
    return chain_.replay(stream, enqueue);
  }
  /// As Chain::finish().
  Expected<void> finish() { return chain_.finish(); }
  /// As Chain::stalled().
  bool stalled() const { return chain_.stalled(); }
  /// As Chain::last_stall(); stalled_iteration() says which iteration it was in.
  StallRecord const& last_stall() const { return chain_.last_stall(); }
  std::string const& proof() const { return chain_.proof(); }

 private:
  LoopChain(Chain chain, std::shared_ptr<LoopTickets> tickets)
      : chain_(std::move(chain)), tickets_(std::move(tickets)) {}
  template <class... Function>
  friend Expected<LoopChain> loop_chain(LoopPlan const&, ChainOptions const&, Function const&...);
  template <class... Operation>
  friend Expected<LoopChain> role_chain(LoopPlan const&, RoleOptions const&, Operation const&...);

  /// For the next launch. How often the plan is launched for it.
  Expected<unsigned> ask(long long iterations) {
    auto const asked = with_iterations(*tickets_, chain_.plan().pipeline.name, iterations);
    if (!asked) return tl::make_unexpected(asked.error());
    *tickets_ = *asked;
    return tickets_->workers > 0 ? 1u : static_cast<unsigned>(asked->periods());
  }

  Chain chain_;
  std::shared_ptr<LoopTickets> tickets_;  ///< of the next launch; the kernels' arguments are made of them
};

namespace detail {

/// The one kernel of a persistent loop.
template <class... Function>
StageKernel loop_kernel_of(LoopPlan const& plan, std::shared_ptr<LoopTickets> const& tickets,
                           LoopOnDevice const& on_device, Function const&... functions) {
  StageKernel kernel;
  kernel.function = reinterpret_cast<void const*>(&loop_tile_kernel<DeadlineWatch<>, Function...>);
  Stage largest;
  largest.resources.threads = 1;
  for (auto const& stage : plan.loop.body.stages)
    largest.resources.threads = std::max(largest.resources.threads, stage.resources.threads);
  kernel.block.x = static_cast<unsigned>(std::max({threads_of<Function>(largest, 0)...}));
  kernel.dynamic_shared_bytes = std::max({shared_bytes_of<Function>(0)...});
  auto const packed = pack_of(functions...);
  kernel.pack = [packed, tickets, records = on_device.records, tiles = on_device.tiles](
                    ChainViews const& views, KernelArguments& arguments) {
    arguments.add(records.get());
    arguments.add(tiles);
    arguments.add(*tickets);
    arguments.add(views.memory);
    arguments.add(views.watch());
    arguments.add(packed);
  };
  return kernel;
}

/// The kernel of a stage of the period, which is a launch of its own.
template <class Function>
StageKernel loop_stage_kernel_of(LoopPlan const& plan, std::size_t stage,
                                 std::shared_ptr<LoopTickets> const& tickets, LoopOnDevice const& on_device,
                                 Function const& function) {
  StageKernel kernel;
  kernel.function = reinterpret_cast<void const*>(&loop_stage_kernel<DeadlineWatch<>, Function>);
  kernel.block.x = static_cast<unsigned>(threads_of<Function>(plan.plan.pipeline.stages[stage], 0));
  kernel.dynamic_shared_bytes = shared_bytes_of<Function>(0);
  kernel.chains = true;
  kernel.pack = [record = on_device.stages[stage], owner = on_device.records, tickets, function](
                    ChainViews const& views, KernelArguments& arguments) {
    arguments.add(record);
    arguments.add(stage_launch(*tickets, record, views.repetition));
    arguments.add(views.memory);
    arguments.add(views.watch());
    arguments.add(function);
  };
  return kernel;
}

}  // namespace detail

/// A tile function for each stage of the loop's body, or for each of LoopPlan::operations; it finds its stage
/// and the iteration in its Context. Refuses as Chain::make() and describe_loop() do; E0510 for another
/// number of functions.
template <class... Function>
Expected<LoopChain> loop_chain(LoopPlan const& plan, ChainOptions const& options,
                               Function const&... functions) {
  std::vector<StageKernel> kernels;
  auto const tables = describe_loop(plan);
  if (!tables) return tl::make_unexpected(tables.error());
  if (auto ok = check_operations(plan, sizeof...(Function)); !ok) return tl::make_unexpected(ok.error());
  auto const records = records_on_device(*tables);
  if (!records) return tl::make_unexpected(records.error());
  auto const tickets = std::make_shared<LoopTickets>(tables->launch(plan));

  if (plan.is_persistent()) {
    kernels.push_back(detail::loop_kernel_of(plan, tickets, *records, functions...));
  } else {
    kernels.resize(records->stages.size());
    int operation = 0;
    auto const add = [&](auto const& function) {
      for (std::size_t s = 0; s < kernels.size(); ++s)
        if (records->stages[s].operation == operation)
          kernels[s] = detail::loop_stage_kernel_of(plan, s, tickets, *records, function);
      ++operation;
    };
    (add(functions), ...);
  }
  // Events around a launch would keep it from overlapping the next one.
  auto own = options;
  own.record = own.time_launches = false;
  auto chain = Chain::make(plan.plan, kernels, own);
  if (!chain) return tl::make_unexpected(chain.error());
  return LoopChain(std::move(*chain), tickets);
}

}  // namespace tessera

#endif
