// SPDX-License-Identifier: Apache-2.0
// The kernels that the library makes of tile functions: a stage each, or several in one persistent launch.
// C++17; the host's side is run/run_tiles.hpp.
#pragma once

#include "../sync/record.cuh"
#include "tile_function.cuh"

namespace tessera {

namespace detail {

template <int Stages>
struct StageTable {
  RuntimeStage stage[Stages];
  RecordTarget record[Stages];
};

}  // namespace detail

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

namespace detail {

template <bool Records, class Watch>
struct ViewOf {
  using type = RuntimeStageView<Watch>;
  static __device__ type make(RuntimeStage const& stage, ChainMemory const& memory, Watch const& watch,
                              RecordTarget const&) {
    return type(stage, memory, watch);
  }
};
template <class Watch>
struct ViewOf<true, Watch> {
  using type = Recorded<RuntimeStageView<Watch>>;
  static __device__ type make(RuntimeStage const& stage, ChainMemory const& memory, Watch const& watch,
                              RecordTarget const& record) {
    return type(RuntimeStageView<Watch>(stage, memory, watch), record);
  }
};

template <int Index, class Table, class First, class... Rest>
__device__ bool run_stage(int wanted, Table const& table, Pack<First, Rest...> const& functions,
                          RuntimeDraw const& draw, ChainMemory const& memory,
                          typename Table::Watch const& watch) {
  if (wanted == Index) {
    auto view = Table::Views::make(table.stages.stage[Index], memory, watch, table.stages.record[Index]);
    view.begin(draw.block, draw.epoch);
    return run_tile(view, table.stages.stage[Index], functions.first);
  }
  if constexpr (sizeof...(Rest) > 0)
    return run_stage<Index + 1>(wanted, table, functions.rest, draw, memory, watch);
  return true;
}

template <int Stages, bool Records, class AWatch>
struct FusedTable {
  using Watch = AWatch;
  using Views = ViewOf<Records, AWatch>;
  StageTable<Stages> const& stages;
};

}  // namespace detail

/// A stage as a kernel of its own: a block for each split of each tile, or a persistent grid. The function is
/// read where it was passed: a descriptor for TMA in it may not be copied.
template <bool Records, class Watch, class Function>
__global__ void __launch_bounds__(detail::most_threads<Function>(0), 1)
    tile_kernel(RuntimeStage const __grid_constant__ stage, ChainMemory memory, Watch watch,
                RecordTarget record, Function const __grid_constant__ function) {
  auto view = detail::ViewOf<Records, Watch>::make(stage, memory, watch, record);
  view.start();
  do {
    if (!detail::run_tile(view, stage, function)) return;
  } while (view.next());
}

/// Several stages in one persistent launch: which of the plan's, `tickets` says. Compiled once for all stages
/// of the plan, since the plan groups them at run time.
template <bool Records, class Watch, class... Function>
__global__ void __launch_bounds__(detail::most_threads_of_all<Function...>(), 1) fused_tile_kernel(
    detail::StageTable<static_cast<int>(sizeof...(Function))> const __grid_constant__ stages,
    RuntimeTickets tickets, ChainMemory memory, Watch watch,
    detail::Pack<Function...> const __grid_constant__ functions) {
  detail::FusedTable<static_cast<int>(sizeof...(Function)), Records, Watch> const table{stages};
  begin_worker(tickets);
  for (;;) {
    auto const draw = draw_next(tickets, memory, [&](int s) { return stages.stage[s].blocks(); });
    if (draw.left) return;
    if (!detail::run_stage<0>(draw.stage, table, functions, draw, memory, watch)) return;
  }
}

#endif

}  // namespace tessera
