// SPDX-License-Identifier: Apache-2.0
// One tile shape as a kernel, and what launches it. Heavy to compile: one shape to a file (instances/).
#pragma once

#include <cutlass/util/packed_stride.hpp>

#include "gemm.hpp"
#include "shape.cuh"
#include "src/gpu/launch.hpp"

namespace tessera::gemm_sm90 {
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
struct PaddedTiles {
  int m = 0, n = 0;
};
template <class Shape>
PaddedTiles padded_tiles(Problem const& problem) {
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

inline cutlass_sm90::SynchronizedProduct product_of(Call const& call) {
  return {call.problem.rows, call.problem.depth, call.stage, call.memory, call.watch, call.producer};
}

template <class Shape>
auto launch_of(Call const& call) {
  auto arguments = arguments_of<Shape>(call);
  if constexpr (!Shape::gated) arguments.epilogue.gelu = call.problem.activation == Activation::gelu;
  if constexpr (Shape::splits > 1)
    arguments.epilogue.split = {call.split.sums, call.split.arrivals, padded_tiles<Shape>(call.problem).n};
  return cutlass_sm90::synchronized_launch<typename Shape::Kernel>(arguments, product_of(call));
}

/// Empty or with fields out of range, or not for TMA.
template <class Shape>
bool can_implement(Call const& call) {
  Problem const& problem = call.problem;
  if (problem.rows <= 0 || problem.columns <= 0 || problem.depth <= 0) return false;
  if ((problem.activation == Activation::swiglu) != Shape::gated || problem.columns % 2 != 0) return false;
  if (problem.a == nullptr || problem.b == nullptr || problem.d == nullptr) return false;
  if (Shape::splits > 1 && (call.split.sums == nullptr || call.split.arrivals == nullptr)) return false;
  if (!cutlass_sm90::can_synchronize(product_of(call))) return false;
  return Shape::Kernel::can_implement(arguments_of<Shape>(call));
}

template <class Shape>
int blocks(Call const& call) {
  dim3 const grid = launch_of<Shape>(call).grid;
  return static_cast<int>(grid.x * grid.y * grid.z);
}

/// Starts `function` with the cluster and what the call asks for.
template <class Kernel>
cudaError_t start(void const* function, dim3 grid, void* params, Call const& call, cudaStream_t stream) {
  using Cluster = typename Kernel::ClusterShape;
  gpu::Shape shape;
  shape.blocks = grid;
  shape.threads = Kernel::get_block_shape();
  shape.shared = Kernel::SharedStorageSize;
  shape.cluster = dim3(cute::size<0>(Cluster{}), cute::size<1>(Cluster{}));
  shape.programmatic = call.programmatic;
  shape.shared_percent = call.shared_percent;
  return gpu::try_launch(shape, stream, function, &params);
}

template <class Shape>
cudaError_t launch(Call const& call, cudaStream_t stream) {
  using Kernel = typename Shape::Kernel;
  if (!can_implement<Shape>(call)) return cudaErrorInvalidValue;
  auto planned = launch_of<Shape>(call);
  return start<Kernel>(reinterpret_cast<void const*>(&synchronized_gemm<Kernel>), planned.grid,
                       &planned.params, call, stream);
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
