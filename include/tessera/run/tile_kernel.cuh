// SPDX-License-Identifier: Apache-2.0
// A stage as a tile function: the kernels that the library makes of one. C++17; the host's side is
// run/run_tiles.hpp.
#pragma once

#include "../sync/record.cuh"
#include "../sync/runtime_stage.cuh"

namespace tessera {

/// What a tile function may ask for. All threads of the block call the function together, in a block of any
/// size: in a fused launch the block is as large as the largest stage's.
struct Context {
  int split = 0;
  int splits = 1;
  TileGrid grid;                    ///< the stage's
  unsigned char* shared = nullptr;  ///< dynamic shared memory, as much as Function::shared_bytes says
  bool stopped = false;             ///< a wait met its deadline: return at once
};

/// The same for a function that waits by itself (`static constexpr bool waits = true`), so that it can load
/// what has no producer first. Such a function takes `template <class C> (Tile, C&)`.
template <class View>
struct StageContext : Context {
  View* view = nullptr;

  /// Everything that the tile reads through the operand. False: return at once.
  template <int I>
  TESSERA_HOST_DEVICE bool wait(OperandIndex<I> operand) {
    stopped = stopped || !view->wait_all(operand);
    fence_proxy_async();
    return !stopped;
  }
  template <int I>
  TESSERA_HOST_DEVICE bool wait(OperandIndex<I> operand, Tile const& producer) {
    stopped = stopped || !view->wait(operand, producer);
    fence_proxy_async();
    return !stopped;
  }
  TESSERA_HOST_DEVICE bool wait_before_store() {
    stopped = stopped || !view->wait_before_store();
    fence_proxy_async();
    return !stopped;
  }
};

namespace detail {

template <class Function>
TESSERA_HOST_DEVICE constexpr auto waits_itself(int) -> decltype(static_cast<bool>(Function::waits)) {
  return Function::waits;
}
template <class Function>
TESSERA_HOST_DEVICE constexpr bool waits_itself(...) {
  return false;
}
template <class Function>
TESSERA_HOST_DEVICE constexpr auto shared_bytes_of(int) -> decltype(int(Function::shared_bytes)) {
  return Function::shared_bytes;
}
template <class Function>
TESSERA_HOST_DEVICE constexpr int shared_bytes_of(...) {
  return 0;
}

/// The most threads that a block of the kernel has. Told to the compiler, which otherwise plans for 1024 and
/// keeps fewer loads in flight to save registers.
template <class Function>
TESSERA_HOST_DEVICE constexpr auto most_threads(int) -> decltype(int(Function::threads)) {
  return Function::threads;
}
template <class Function>
TESSERA_HOST_DEVICE constexpr int most_threads(...) {
  return 1024;
}
template <class... Function>
TESSERA_HOST_DEVICE constexpr int most_threads_of_all() {
  int most = 1;
  ((most = most_threads<Function>(0) > most ? most_threads<Function>(0) : most), ...);
  return most;
}

/// A tuple for kernel arguments: std::tuple is not for device code.
template <class... T>
struct Pack {};
template <class First, class... Rest>
struct Pack<First, Rest...> {
  First first;
  Pack<Rest...> rest;
};
TESSERA_HOST_DEVICE inline Pack<> pack_of() { return {}; }
template <class First, class... Rest>
TESSERA_HOST_DEVICE Pack<First, Rest...> pack_of(First const& first, Rest const&... rest) {
  return {first, pack_of(rest...)};
}

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

/// One tile, from its waits to its post. False: a wait met its deadline, nothing was posted. The function may
/// read through TMA what other functions wrote with ordinary stores, and the other way round: hence the proxy
/// fences, which only the thread that made an access can order.
template <class View, class Function>
__device__ bool run_tile(View& view, RuntimeStage const& stage, Function const& function) {
  extern __shared__ __align__(128) unsigned char tessera_dynamic_shared[];
  StageContext<View> context;
  context.split = view.split();
  context.splits = stage.splits;
  context.grid = stage.grid;
  context.shared = tessera_dynamic_shared;
  context.view = &view;
  if constexpr (!waits_itself<Function>(0)) {
    if (!view.wait_all(operand_a) || !view.wait_all(operand_b) || !view.wait_all(operand_c) ||
        !view.wait_all(operand_d) || !view.wait_before_store())
      return false;
    fence_proxy_async();
  }
  function(view.tile(), context);
  if (context.stopped) return false;
  fence_proxy_async();
  view.post();
  return true;
}

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
