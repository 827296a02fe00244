// SPDX-License-Identifier: Apache-2.0
// The kernels of a loop whose stages are tile functions: one for all of them, whose size depends on the
// number of functions alone, or one for each.
#pragma once

#include "loop_launch.cuh"
#include "loop_worker.cuh"
#include "tile_function.cuh"

namespace tessera {

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

namespace detail {

/// For tiles of iterations that were not asked for.
struct ComputesNothing {
  __device__ void operator()(Tile, Context&) const {}
};

template <int Index, class View, class First, class... Rest>
__device__ bool run_operation(View& view, LoopRecord const& record, long long iteration,
                              Pack<First, Rest...> const& functions) {
  if constexpr (sizeof...(Rest) > 0)
    if (record.operation != Index) return run_operation<Index + 1>(view, record, iteration, functions.rest);
  return run_tile(view, record.stage, functions.first, iteration, record.body_stage);
}

/// One of two records in shared memory: one to compute by, one to fetch ahead.
union RecordSlot {
  static constexpr int words = static_cast<int>(sizeof(LoopRecord) / sizeof(unsigned long long));
  static_assert(sizeof(LoopRecord) % sizeof(unsigned long long) == 0, "");
  unsigned long long word[words];
};

/// All threads of the block; seen by all after the next barrier.
__device__ inline void fetch(RecordSlot& to, LoopRecord const& from) {
  auto const* const words = reinterpret_cast<unsigned long long const*>(&from);
  for (int i = static_cast<int>(threadIdx.x); i < RecordSlot::words; i += static_cast<int>(blockDim.x))
    to.word[i] = words[i];
}

}  // namespace detail

/// `records`: a period's stages, in device memory; `tiles`: how many each has. A worker draws the next tile
/// and fetches its record before it waits for what the current one reads: both are there when it is done.
template <class Watch, class... Function>
__global__ void __launch_bounds__(detail::most_threads_of_all<Function...>(), 1)
    loop_tile_kernel(LoopRecord const* records, int const* tiles, LoopTickets tickets, ChainMemory memory,
                     Watch watch, detail::Pack<Function...> const __grid_constant__ functions) {
  __shared__ detail::RecordSlot slots[2];
  auto const tiles_of = [&](int stage) { return tiles[stage]; };
  LoopWorker worker(tickets, memory);
  auto draw = worker.next(tiles_of);
  if (!draw.left) detail::fetch(slots[0], records[draw.stage]);
  for (int slot = 0; !draw.left; slot ^= 1) {
    auto const next = worker.next(tiles_of);  // behind its barriers the record is there
    if (!next.left) detail::fetch(slots[slot ^ 1], records[next.stage]);
    auto const& record = *reinterpret_cast<LoopRecord const*>(slots[slot].word);
    LoopStageView<Watch> view(record, memory, watch, draw);
    long long iteration = 0;
    bool const asked = worker.is_asked_for(draw, record, iteration);
    if (!(asked ? detail::run_operation<0>(view, record, iteration, functions)
                : detail::run_tile(view, record.stage, detail::ComputesNothing{})))
      return;
    draw = next;
  }
}

/// A stage of one period, a block for each tile. The next launch starts as soon as all blocks have drawn
/// their tickets, which includes those that then wait: they wait for earlier launches alone. Each block
/// leaves behind the launches before, a stalled one too: so the last launch is complete when all are.
template <class Watch, class Function>
__global__ void __launch_bounds__(detail::most_threads<Function>(0), 1)
    loop_stage_kernel(LoopRecord const __grid_constant__ record, LoopLaunch launch, ChainMemory memory,
                      Watch watch, Function const __grid_constant__ function) {
  // Whoever was enqueued before knows nothing of this loop's semaphores.
  if (launch.first) pdl_wait();
  auto const draw = draw_in_launch(record, memory);
  pdl_trigger();
  LoopStageView<Watch> view(record, memory, watch, draw);
  if (launch.asked)
    detail::run_tile(view, record.stage, function, launch.iteration, record.body_stage);
  else
    detail::run_tile(view, record.stage, detail::ComputesNothing{});
  pdl_wait();
}

#endif

}  // namespace tessera
