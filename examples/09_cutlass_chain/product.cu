// SPDX-License-Identifier: Apache-2.0
// CUTLASS's builders make the collectives, as in its own examples. SynchronizedGemm is what is new.
#include "product.hpp"

#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/util/packed_stride.hpp>
#include <tessera/cutlass/launch.cuh>

namespace my_gemm {
namespace {

using namespace cute;
using Element = cutlass::bfloat16_t;
using Tile = Shape<Int<tile_rows>, Int<tile_columns>, Int<tile_depth>>;
using Cluster = Shape<_2, _1, _1>;

using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, cutlass::layout::RowMajor, 8,
    Element, cutlass::layout::RowMajor, 8, cutlass::epilogue::TmaWarpSpecializedCooperative>::CollectiveOp;
using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, cutlass::layout::RowMajor, 8, Element,
    cutlass::layout::ColumnMajor, 8, float, Tile, Cluster,
    cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
        sizeof(typename Epilogue::SharedStorage))>,
    cutlass::gemm::KernelTmaWarpSpecializedCooperative>::CollectiveOp;

// CUTLASS alone would be GemmUniversal<Shape<int, int, int>, Mainloop, Epilogue>.
using Kernel = tessera::cutlass_sm90::SynchronizedGemm<Mainloop, Epilogue>::Kernel;

Kernel::Arguments arguments_of(Operands const& operands, Grid const& grid) {
  Kernel::Arguments arguments{};
  arguments.mode = cutlass::gemm::GemmUniversalMode::kGemm;
  arguments.problem_shape = {operands.rows, operands.columns, operands.depth};
  auto const stride = [](auto type, int rows, int columns) {
    return cutlass::make_cute_packed_stride(type, make_shape(rows, columns, 1));
  };
  arguments.mainloop.ptr_A = static_cast<Element const*>(operands.a);
  arguments.mainloop.dA = stride(Kernel::StrideA{}, operands.rows, operands.depth);
  arguments.mainloop.ptr_B = static_cast<Element const*>(operands.b);
  arguments.mainloop.dB = stride(Kernel::StrideB{}, operands.columns, operands.depth);
  arguments.epilogue.ptr_D = static_cast<Element*>(operands.d);
  arguments.epilogue.dD = stride(Kernel::StrideD{}, operands.rows, operands.columns);
  arguments.scheduler.band = grid.band;
  arguments.scheduler.raster_order = Kernel::TileScheduler::RasterOrderOptions::AlongN;
  arguments.hw_info.sm_count = grid.most_blocks > 0 ? grid.most_blocks : 1 << 20;
  return arguments;
}

}  // namespace

Resources resources() {
  return {static_cast<int>(Kernel::MaxThreadsPerBlock), static_cast<int>(Kernel::SharedStorageSize),
          static_cast<int>(Kernel::DispatchPolicy::Stages)};
}

cudaError_t prepare() { return tessera::cutlass_sm90::prepare<Kernel>(); }
void const* function() {
  return reinterpret_cast<void const*>(&tessera::cutlass_sm90::synchronized_gemm<Kernel>);
}

cudaError_t launch(Operands const& operands, Grid const& grid,
                   tessera::cutlass_sm90::SynchronizedProduct const& stage, cudaStream_t stream, bool early,
                   int shared_percent) {
  auto const arguments = arguments_of(operands, grid);
  if (!can_synchronize(stage) || !Kernel::can_implement(arguments)) return cudaErrorInvalidValue;
  auto const planned = tessera::cutlass_sm90::synchronized_launch<Kernel>(arguments, stage);
  return tessera::cutlass_sm90::launch(planned, stream, early, shared_percent);
}

}  // namespace my_gemm
