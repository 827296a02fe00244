// SPDX-License-Identifier: Apache-2.0
// One tile shape: CUTLASS's collectives from its builder, ours derived from them, its GemmUniversal around
// both, and our __global__ around that. Heavy to compile: one shape to a file (instances/).
#pragma once

#include <cutlass/epilogue/thread/activation.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/util/packed_stride.hpp>

#include "band_scheduler.cuh"
#include "gated_epilogue.cuh"
#include "gelu_epilogue.cuh"
#include "gemm.hpp"
#include "post_epilogue.cuh"
#include "src/gpu/launch.hpp"
#include "wait_mainloop.cuh"

namespace tessera::gemm_sm90 {

template <class Type>
struct Same {
  using type = Type;
};

/// CUTLASS's mainloop with another instruction.
template <class Mainloop, class TiledMma>
struct WithMma;
template <class Policy, class Tile, class A, class StrideA, class B, class StrideB, class Old, class CopyA,
          class LayoutA, class SmemCopyA, class TransformA, class CopyB, class LayoutB, class SmemCopyB,
          class TransformB, class TiledMma>
struct WithMma<
    cutlass::gemm::collective::CollectiveMma<Policy, Tile, A, StrideA, B, StrideB, Old, CopyA, LayoutA,
                                             SmemCopyA, TransformA, CopyB, LayoutB, SmemCopyB, TransformB>,
    TiledMma> {
  using type =
      cutlass::gemm::collective::CollectiveMma<Policy, Tile, A, StrideA, B, StrideB, TiledMma, CopyA, LayoutA,
                                               SmemCopyA, TransformA, CopyB, LayoutB, SmemCopyB, TransformB>;
};

/// Columns that are stored at a time where CUTLASS would take 8 or 16, with two barriers each time: an odd
/// number of 16-byte words, which rows of shared memory without a swizzle need to lie in different banks.
/// 0: CUTLASS's choice.
constexpr int store_columns(int tile_columns) {
  return tile_columns % 88 == 0 ? 88 : tile_columns % 72 == 0 ? 72 : 0;
}

/// CUTLASS's epilogue that stores tiles through TMA.
template <class Tile, class Cluster, class Element, class Schedule, class Fusion, bool pingpong,
          int columns = store_columns(cute::size<1>(Tile{}))>
struct PlainStore {
  static constexpr int rows = pingpong ? 64 : 128;
  static constexpr int stores = cute::size<0>(Tile{}) / rows * (cute::size<1>(Tile{}) / columns);
  using Part = cute::Shape<cute::Int<rows>, cute::Int<columns>>;
  using Policy =
      cutlass::epilogue::Sm90TmaWarpSpecialized<4, cute::min(stores, 2),
                                                rows * columns / (pingpong ? 128 : 256), false, true>;
  using Layout =
      cute::Layout<cute::Shape<cute::_8, cute::Int<columns>>, cute::Stride<cute::Int<columns>, cute::_1>>;
  using Stride = cutlass::detail::TagToStrideC_t<cutlass::layout::RowMajor>;
  using type = cutlass::epilogue::collective::CollectiveEpilogue<
      Policy, Tile, Part, void, Stride, Element, Stride,
      cutlass::epilogue::fusion::FusionCallbacks<Policy, Fusion, Tile, Part>, cute::SM90_TMA_LOAD, Layout,
      cute::SM75_U32x2_LDSM_N, cute::SM90_TMA_STORE, Layout, cute::SM90_U32x2_STSM_N,
      cute::Copy_Atom<cute::SM90_U32x2_STSM_N, cutlass::half_t>, void>;
};
/// The same as CUTLASS builds it; `Layout` is d's as CUTLASS sees it.
template <class Tile, class Cluster, class Element, class Schedule, class Fusion, class Layout>
using BuiltStore = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, Layout, 8, Element, Layout, 8,
    Schedule, Fusion>::CollectiveOp;
template <class Tile, class Cluster, class Element, class Schedule, class Fusion, bool pingpong>
struct PlainStore<Tile, Cluster, Element, Schedule, Fusion, pingpong, 0> {
  using type = BuiltStore<Tile, Cluster, Element, Schedule, Fusion, cutlass::layout::RowMajor>;
};

/// What a kernel is compiled for.
template <int M, int N, int K, int ClusterM, int ClusterN, bool Pingpong>
struct TileOf {
  static constexpr bool pingpong = Pingpong;
  static constexpr bool swapped = false;
  static constexpr int splits = 1;
  using Tile = cute::Shape<cute::Int<M>, cute::Int<N>, cute::Int<K>>;
  using Cluster = cute::Shape<cute::Int<ClusterM>, cute::Int<ClusterN>, cute::_1>;
};

/// d^T = b * a^T: CUTLASS's M are d's columns and its N the rows, for which the tile is given first here as
/// everywhere outside. Rows come in any multiple of 8 then, where M has to be one of 64.
template <int Rows, int Columns, int K, int ClusterRows, int ClusterColumns, bool Pingpong>
struct SwappedTileOf : TileOf<Columns, Rows, K, ClusterColumns, ClusterRows, Pingpong> {
  static constexpr bool swapped = true;
};

// In split_k.cuh, which instances include that need it.
template <class Base, int splits>
struct SplitMainloop;
template <class Base, int splits>
struct SplitEpilogue;

/// Two blocks to a tile, each with half of its depth.
template <class TileOf>
struct SplitInTwo : TileOf {
  static_assert(TileOf::pingpong, "CUTLASS's other kernels take the depth from the problem");
  static constexpr int splits = 2;
};

enum class Gate { none, swiglu };

/// The types of a kernel. With `Synchronized` false it is CUTLASS alone, for comparison.
template <class TileOf, class Element_ = cutlass::bfloat16_t, Gate gate = Gate::none,
          bool Synchronized = true,
          template <class> class ActivationFunction = cutlass::epilogue::thread::Identity>
struct Shape {
  static constexpr bool pingpong = TileOf::pingpong;
  static constexpr bool gated = gate == Gate::swiglu;
  /// CUTLASS's mode of d's rows: 0 is M, 1 is N.
  static constexpr int row_mode = TileOf::swapped ? 1 : 0;
  static constexpr int splits = TileOf::splits;
  static_assert(!(gated && TileOf::swapped), "a pair of columns would be one of rows of the sums");
  using Element = Element_;
  using Tile = typename TileOf::Tile;
  using Cluster = typename TileOf::Cluster;
  static constexpr int tile_columns = cute::size<1>(Tile{});
  using OutputTile =
      cute::Shape<decltype(cute::get<0>(Tile{})), cute::Int<gated ? tile_columns / 2 : tile_columns>,
                  decltype(cute::get<2>(Tile{}))>;
  using AtomLayout = cute::Layout<cute::Shape<cute::Int<pingpong ? 1 : 2>, cute::_1, cute::_1>>;
  using MainloopSchedule = cute::conditional_t<pingpong, cutlass::gemm::KernelTmaWarpSpecializedPingpong,
                                               cutlass::gemm::KernelTmaWarpSpecializedCooperative>;
  using EpilogueSchedule = cute::conditional_t<pingpong, cutlass::epilogue::TmaWarpSpecialized,
                                               cutlass::epilogue::TmaWarpSpecializedCooperative>;
  using Fusion = cute::conditional_t<
      Synchronized, cutlass::epilogue::fusion::ScaledAcc<Element, float>,
      cutlass::epilogue::fusion::LinCombEltAct<ActivationFunction, Element, float, Element, float>>;
  using PlainEpilogue = typename cute::conditional_t<
      TileOf::swapped,
      Same<BuiltStore<Tile, Cluster, Element, EpilogueSchedule, Fusion, cutlass::layout::ColumnMajor>>,
      PlainStore<OutputTile, Cluster, Element, EpilogueSchedule, Fusion, pingpong>>::type;
  using BaseEpilogue =
      cute::conditional_t<gated, GatedEpilogue<PlainEpilogue, Tile, AtomLayout>,
                          cute::conditional_t<Synchronized, GeluEpilogue<PlainEpilogue>, PlainEpilogue>>;
  using BuiltMainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, cutlass::layout::RowMajor, 8, Element,
      cutlass::layout::ColumnMajor, 8, float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
          sizeof(typename BaseEpilogue::SharedStorage))>,
      MainloopSchedule>::CollectiveOp;
  using WideMma = cute::TiledMMA<cute::MMA_Atom<WideWgmma<tile_columns, Element>>, AtomLayout>;
  using BaseMainloop =
      typename cute::conditional_t<needs_wide_wgmma(tile_columns), WithMma<BuiltMainloop, WideMma>,
                                   Same<BuiltMainloop>>::type;
  using Waiting = WaitMainloop<BaseMainloop, DeadlineWatch<>, row_mode>;
  using Posting = PostEpilogue<BaseEpilogue, row_mode>;
  using Mainloop = cute::conditional_t<
      Synchronized, cute::conditional_t<splits == 1, Waiting, SplitMainloop<Waiting, splits>>, BaseMainloop>;
  using Epilogue = cute::conditional_t<
      Synchronized, cute::conditional_t<splits == 1, Posting, SplitEpilogue<Posting, splits>>, BaseEpilogue>;
  using Scheduler = cute::conditional_t<Synchronized, BandSchedulerTag<row_mode, splits>,
                                        cutlass::gemm::PersistentScheduler>;
  using Kernel =
      cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int>, Mainloop, Epilogue, Scheduler>;
};

/// Lets the next kernel start at once: where there is nothing to overlap that costs next to nothing, and a
/// consumer with waits is placed only when every block of this kernel is there or gone. A kernel that started
/// early itself lets the next one start only when those before it are complete, for the epochs of the next
/// one's waits are counts of blocks that have left. At the end comes the wait for the kernels before, so that
/// completion stays transitive, then the count that makes the epochs.
template <class Kernel>
__global__ void __launch_bounds__(Kernel::MaxThreadsPerBlock, 1)
    synchronized_gemm(__grid_constant__ typename Kernel::Params const params) {
  if (!params.mainloop.wait.trigger_late) pdl_trigger();
  extern __shared__ char shared_memory[];
  Kernel{}(params, shared_memory);
  if (threadIdx.x == 0) {
    pdl_wait();
    if (params.mainloop.wait.groups != 0)
      count_one(const_cast<unsigned long long*>(params.mainloop.wait.left));
  }
}

namespace detail {

template <class Shape>
typename Shape::Kernel::Arguments arguments_of(Call const& call) {
  using Kernel = typename Shape::Kernel;
  using Element = typename Shape::Element;
  Problem const& problem = call.problem;
  typename Kernel::Arguments arguments{};
  arguments.mode = cutlass::gemm::GemmUniversalMode::kGemm;
  constexpr bool swapped = Shape::row_mode == 1;
  int const m = swapped ? problem.columns : problem.rows;
  int const n = swapped ? problem.rows : problem.columns;
  arguments.problem_shape = {m, n, problem.depth};
  auto stride = [](auto type, int rows, int columns) {
    return cutlass::make_cute_packed_stride(type, cute::make_shape(rows, columns, 1));
  };
  arguments.mainloop.ptr_A = static_cast<Element const*>(swapped ? problem.b : problem.a);
  arguments.mainloop.dA = stride(typename Kernel::StrideA{}, m, problem.depth);
  arguments.mainloop.ptr_B = static_cast<Element const*>(swapped ? problem.a : problem.b);
  arguments.mainloop.dB = stride(typename Kernel::StrideB{}, n, problem.depth);
  arguments.epilogue.ptr_C = nullptr;
  arguments.epilogue.ptr_D = static_cast<Element*>(problem.d);
  arguments.epilogue.dD = swapped ? stride(typename Kernel::StrideD{}, m, n)
                                  : stride(typename Kernel::StrideD{}, m, problem.output_columns());
  using Scheduler = typename Kernel::TileScheduler;
  using Raster = typename Scheduler::RasterOrderOptions;
  // Our own scheduler only takes the grid's layout from this; CUTLASS's has the two extremes.
  arguments.scheduler.raster_order = Raster::AlongN;
  if constexpr (cute::is_same_v<Scheduler, BandSchedulerOf<Shape::row_mode, Shape::splits>>)
    arguments.scheduler.band = call.band;
  else if (call.band != 1)
    arguments.scheduler.raster_order = Raster::AlongM;
  arguments.hw_info.device_id = 0;
  arguments.hw_info.sm_count = call.most_blocks > 0 ? call.most_blocks : 1 << 20;
  return arguments;
}

/// Tiles as CUTLASS counts them, with those that pad a cluster.
struct TileGrid {
  int m = 0, n = 0;
};
template <class Shape>
TileGrid split_grid(Problem const& problem) {
  auto const up = [](int value, int unit) { return (value + unit - 1) / unit; };
  auto const tiles = [&](int extent, int tile, int cluster) {
    return up(up(extent, tile), cluster) * cluster;
  };
  using Tile = typename Shape::Tile;
  using Cluster = typename Shape::Cluster;
  bool const swapped = Shape::row_mode == 1;
  return {tiles(swapped ? problem.columns : problem.rows, cute::size<0>(Tile{}), cute::size<0>(Cluster{})),
          tiles(swapped ? problem.rows : problem.columns, cute::size<1>(Tile{}), cute::size<1>(Cluster{}))};
}

template <class Shape>
void synchronize(typename Shape::Kernel::Arguments& arguments, Call const& call) {
  if constexpr (!Shape::gated) arguments.epilogue.gelu = call.problem.activation == Activation::gelu;
  TileSemaphores const& posts = call.posts;
  if (posts.memory != nullptr)
    arguments.epilogue.post = {posts.memory, posts.rows, posts.columns, posts.groups(),
                               posts.columns_per_semaphore};
  if constexpr (Shape::splits > 1)
    arguments.epilogue.split = {call.split.sums, call.split.arrivals, split_grid<Shape>(call.problem).n};
  auto& wait = arguments.mainloop.wait;
  wait.early_weights = call.early_weights && call.programmatic;
  wait.trigger_late = call.programmatic && call.waits.memory == nullptr;
  TileSemaphores const& waits = call.waits;
  if (waits.memory == nullptr) return;
  wait.semaphores = waits.memory;
  wait.left = call.left;
  wait.rows = waits.rows;
  wait.groups = waits.groups();
  wait.tile_rows = waits.tile_rows;
  wait.group_depth = waits.tile_columns * waits.columns_per_semaphore;
  wait.posts = static_cast<unsigned>(waits.columns_per_semaphore);
  wait.last_posts = static_cast<unsigned>(waits.columns - (waits.groups() - 1) * waits.columns_per_semaphore);
  wait.stage = call.stage;
  wait.watch = call.watch;
}

/// Empty or with fields out of range, or not for TMA.
template <class Shape>
bool can_implement(Call const& call) {
  Problem const& problem = call.problem;
  if (problem.rows <= 0 || problem.columns <= 0 || problem.depth <= 0) return false;
  if ((problem.activation == Activation::swiglu) != Shape::gated || problem.columns % 2 != 0) return false;
  if (problem.a == nullptr || problem.b == nullptr || problem.d == nullptr) return false;
  if (Shape::splits > 1 && (call.split.sums == nullptr || call.split.arrivals == nullptr)) return false;
  TileSemaphores const& waits = call.waits;
  if (waits.memory != nullptr) {
    bool const whole = waits.tile_rows > 0 && waits.tile_columns > 0 && waits.columns_per_semaphore > 0 &&
                       1LL * waits.rows * waits.tile_rows >= problem.rows &&
                       1LL * waits.columns * waits.tile_columns >= problem.depth;
    if (!whole || call.left == nullptr || call.watch.record == nullptr || call.watch.nanoseconds == 0)
      return false;
  }
  return Shape::Kernel::can_implement(arguments_of<Shape>(call));
}

template <class Shape>
typename Shape::Kernel::Params params_of(Call const& call) {
  auto arguments = arguments_of<Shape>(call);
  synchronize<Shape>(arguments, call);
  return Shape::Kernel::to_underlying_arguments(arguments, nullptr);
}

inline unsigned blocks_in(dim3 const& grid) { return grid.x * grid.y * grid.z; }

template <class Shape>
int blocks(Call const& call) {
  return static_cast<int>(blocks_in(Shape::Kernel::get_grid_shape(params_of<Shape>(call))));
}

/// Starts `function` with the cluster and, where asked for, the programmatic attribute.
template <class Kernel>
cudaError_t start(void const* function, dim3 grid, void* params, bool programmatic, cudaStream_t stream) {
  using Cluster = typename Kernel::ClusterShape;
  gpu::Shape shape;
  shape.blocks = grid;
  shape.threads = Kernel::get_block_shape();
  shape.shared = Kernel::SharedStorageSize;
  shape.cluster = dim3(cute::size<0>(Cluster{}), cute::size<1>(Cluster{}));
  shape.programmatic = programmatic;
  return gpu::try_launch(shape, stream, function, &params);
}

template <class Shape>
cudaError_t launch(Call const& call, cudaStream_t stream) {
  using Kernel = typename Shape::Kernel;
  if (!can_implement<Shape>(call)) return cudaErrorInvalidValue;
  typename Kernel::Params params = params_of<Shape>(call);
  dim3 const grid = Kernel::get_grid_shape(params);
  unsigned const count = blocks_in(grid);
  params.mainloop.wait.reciprocal = count == 1 ? 0 : ~0ULL / count + 1;
  return start<Kernel>(reinterpret_cast<void const*>(&synchronized_gemm<Kernel>), grid, &params,
                       call.programmatic, stream);
}

}  // namespace detail

/// The entry of a tile shape in the list of kernels.
template <class Shape>
Kernel make_kernel(char const* name) {
  using Gemm = typename Shape::Kernel;
  KernelInfo info;
  info.name = name;
  info.type =
      cute::is_same_v<typename Shape::Element, cutlass::half_t> ? ElementType::fp16 : ElementType::bf16;
  info.gated = Shape::gated;
  constexpr int rows = Shape::row_mode;
  info.swapped = rows == 1;
  info.tile_rows = cute::size<rows>(typename Shape::Tile{});
  info.tile_columns = cute::size<1 - rows>(typename Shape::Tile{});
  info.tile_depth = cute::size<2>(typename Shape::Tile{});
  info.cluster_rows = cute::size<rows>(typename Shape::Cluster{});
  info.cluster_columns = cute::size<1 - rows>(typename Shape::Cluster{});
  info.splits = Shape::splits;
  info.pingpong = Shape::pingpong;
  info.stages = Gemm::DispatchPolicy::Stages;
  info.threads = Gemm::MaxThreadsPerBlock;
  info.shared_bytes = Gemm::SharedStorageSize;
  return {info, reinterpret_cast<void const*>(&synchronized_gemm<Gemm>), &detail::can_implement<Shape>,
          &detail::blocks<Shape>, &detail::launch<Shape>};
}

}  // namespace tessera::gemm_sm90
