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
#include "gemm.hpp"
#include "post_epilogue.cuh"
#include "wait_mainloop.cuh"

namespace tessera::gemm_sm90 {

struct GeluSwitch {
  bool on = false;
};

/// One kernel serves both GEMMs of an MLP: a test that is the same for all threads, a few hundred times in
/// a tile, against twice the kernels to compile, load and keep in the instruction cache.
template <class T>
struct OptionalGelu {
  static bool const kIsHeavy = true;
  using Arguments = GeluSwitch;
  CUTLASS_HOST_DEVICE T operator()(T const& value, Arguments const& gelu) const {
    return gelu.on ? cutlass::epilogue::thread::GELU_taylor<T>{}(value) : value;
  }
};

/// The types of a tile shape. With `Synchronized` false it is CUTLASS alone, for comparison.
template <int M, int N, int K, int ClusterM, int ClusterN, bool Pingpong, bool Synchronized = true,
          template <class> class ActivationFunction = OptionalGelu>
struct Shape {
  static constexpr bool pingpong = Pingpong;
  using Element = cutlass::bfloat16_t;
  using Tile = cute::Shape<cute::Int<M>, cute::Int<N>, cute::Int<K>>;
  using Cluster = cute::Shape<cute::Int<ClusterM>, cute::Int<ClusterN>, cute::_1>;
  using MainloopSchedule = cute::conditional_t<Pingpong, cutlass::gemm::KernelTmaWarpSpecializedPingpong,
                                               cutlass::gemm::KernelTmaWarpSpecializedCooperative>;
  using EpilogueSchedule = cute::conditional_t<Pingpong, cutlass::epilogue::TmaWarpSpecialized,
                                               cutlass::epilogue::TmaWarpSpecializedCooperative>;
  using BaseEpilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, cutlass::layout::RowMajor, 8,
      Element, cutlass::layout::RowMajor, 8, EpilogueSchedule,
      cutlass::epilogue::fusion::LinCombEltAct<ActivationFunction, Element, float, Element,
                                               float>>::CollectiveOp;
  using BaseMainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, cutlass::layout::RowMajor, 8, Element,
      cutlass::layout::ColumnMajor, 8, float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
          sizeof(typename BaseEpilogue::SharedStorage))>,
      MainloopSchedule>::CollectiveOp;
  using Mainloop =
      cute::conditional_t<Synchronized, WaitMainloop<BaseMainloop, DeadlineWatch<>>, BaseMainloop>;
  using Epilogue = cute::conditional_t<Synchronized, PostEpilogue<BaseEpilogue>, BaseEpilogue>;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<
      cute::Shape<int, int, int>, Mainloop, Epilogue,
      cute::conditional_t<Synchronized, BandSchedulerTag, cutlass::gemm::PersistentScheduler>>;
};

/// Lets the next kernel start at once: where there is nothing to overlap that costs next to nothing, and a
/// consumer with waits is placed only when every block of this kernel is there or gone. At the end comes the
/// wait for the kernels before, so that completion stays transitive, then the count that makes the epochs.
template <class Kernel>
__global__ void __launch_bounds__(Kernel::MaxThreadsPerBlock, 1)
    synchronized_gemm(__grid_constant__ typename Kernel::Params const params) {
  pdl_trigger();
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
  arguments.problem_shape = {problem.rows, problem.columns, problem.depth};
  auto stride = [](auto type, int rows, int columns) {
    return cutlass::make_cute_packed_stride(type, cute::make_shape(rows, columns, 1));
  };
  arguments.mainloop.ptr_A = static_cast<Element const*>(problem.a);
  arguments.mainloop.dA = stride(typename Kernel::StrideA{}, problem.rows, problem.depth);
  arguments.mainloop.ptr_B = static_cast<Element const*>(problem.b);
  arguments.mainloop.dB = stride(typename Kernel::StrideB{}, problem.columns, problem.depth);
  arguments.epilogue.ptr_C = nullptr;
  arguments.epilogue.ptr_D = static_cast<Element*>(problem.d);
  arguments.epilogue.dD = stride(typename Kernel::StrideD{}, problem.rows, problem.columns);
  using Raster = typename Kernel::TileScheduler::RasterOrderOptions;
  // Our own scheduler only takes the grid's layout from this; CUTLASS's has the two extremes.
  arguments.scheduler.raster_order = Raster::AlongN;
  if constexpr (cute::is_same_v<typename Kernel::TileScheduler, BandScheduler>)
    arguments.scheduler.band = call.band;
  else if (call.band != 1)
    arguments.scheduler.raster_order = Raster::AlongM;
  arguments.hw_info.device_id = 0;
  arguments.hw_info.sm_count = call.most_blocks > 0 ? call.most_blocks : 1 << 20;
  return arguments;
}

template <class Shape>
void synchronize(typename Shape::Kernel::Arguments& arguments, Call const& call) {
  arguments.epilogue.thread.activation.on = call.problem.activation == Activation::gelu;
  TileSemaphores const& posts = call.posts;
  if (posts.memory != nullptr)
    arguments.epilogue.post = {posts.memory, posts.rows, posts.columns, posts.groups(),
                               posts.columns_per_semaphore};
  auto& wait = arguments.mainloop.wait;
  wait.early_weights = call.early_weights;
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
  if (problem.a == nullptr || problem.b == nullptr || problem.d == nullptr) return false;
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
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = Kernel::get_block_shape();
  config.dynamicSmemBytes = Kernel::SharedStorageSize;
  config.stream = stream;
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {cute::size<0>(typename Kernel::ClusterShape{}),
                                  cute::size<1>(typename Kernel::ClusterShape{}), 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  config.attrs = attributes;
  config.numAttrs = programmatic ? 2 : 1;
  void* parameters[] = {params};
  return cudaLaunchKernelExC(&config, function, parameters);
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
  info.tile_rows = cute::size<0>(typename Shape::Tile{});
  info.tile_columns = cute::size<1>(typename Shape::Tile{});
  info.tile_depth = cute::size<2>(typename Shape::Tile{});
  info.cluster_rows = cute::size<0>(typename Shape::Cluster{});
  info.cluster_columns = cute::size<1>(typename Shape::Cluster{});
  info.pingpong = Shape::pingpong;
  info.stages = Gemm::DispatchPolicy::Stages;
  info.threads = Gemm::MaxThreadsPerBlock;
  info.shared_bytes = Gemm::SharedStorageSize;
  return {info, reinterpret_cast<void const*>(&synchronized_gemm<Gemm>), &detail::can_implement<Shape>,
          &detail::blocks<Shape>, &detail::launch<Shape>};
}

}  // namespace tessera::gemm_sm90
