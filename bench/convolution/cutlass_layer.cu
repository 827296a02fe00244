// SPDX-License-Identifier: Apache-2.0
// Heavy to compile: a minute.
#include "bench/convolution/cutlass_layer.hpp"

// CUTLASS's headers for convolutions do not include all that they use: these two come first.
#include <cute/tensor.hpp>
#include <cutlass/kernel_hardware_info.hpp>

#include <cutlass/device_kernel.h>
#include <cutlass/conv/collective/collective_builder.hpp>
#include <cutlass/conv/convnd_problem_shape.hpp>
#include <cutlass/conv/dispatch_policy.hpp>
#include <cutlass/conv/kernel/conv_universal.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>

namespace tessera::bench_convolution {
namespace {

using Half = cutlass::half_t;
using Layout = cutlass::layout::TensorNHWC;
using Cluster = cute::Shape<cute::_1, cute::_1, cute::_1>;
constexpr auto k_forward = cutlass::conv::Operator::kFprop;

/// relu(sum + bias + beta * residual), a bias for each channel.
using Fusion =
    cutlass::epilogue::fusion::LinCombPerColBiasEltAct<cutlass::epilogue::thread::ReLu, Half, float, Half>;
using Epilogue = cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, cute::Shape<cute::_64, cute::_64, cute::_64>,
    Cluster, cutlass::epilogue::collective::EpilogueTileAuto, float, float, Half, Layout, 8, Half, Layout, 8,
    cutlass::epilogue::TmaWarpSpecialized, Fusion>::CollectiveOp;
using Mainloop = cutlass::conv::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, k_forward, Half, Layout, 8, Half, Layout, 8, float,
    cute::Shape<cute::_64, cute::_64, cute::Shape<cute::_64>>, Cluster,
    cutlass::conv::collective::StageCountAutoCarveout<static_cast<int>(
        sizeof(typename Epilogue::SharedStorage))>,
    cutlass::conv::KernelImplicitTmaWarpSpecializedSm90>::CollectiveOp;
using Shape = cutlass::conv::ConvProblemShape<k_forward, 2>;
using Kernel = cutlass::conv::kernel::ConvUniversal<Shape, Mainloop, Epilogue>;

Shape shape_of(cudnn::Problem const& problem) {
  auto const& input = problem.input;
  auto const& layer = problem.layer;
  return {cutlass::conv::Mode::kCrossCorrelation,
          {problem.images, input.height, input.width, input.channels},
          {layer.channels, layer.kernel, layer.kernel, input.channels},
          {layer.padding, layer.padding},
          {layer.padding, layer.padding},
          {layer.stride, layer.stride},
          {1, 1},
          1};
}

}  // namespace

bool cutlass_can(cudnn::Problem const& problem) {
  return problem.type == convolution::ElementType::fp16 && problem.layer.bias && problem.layer.relu;
}

cudaError_t cutlass_layer(cudnn::Problem const& problem, cudnn::Buffers const& buffers, cudaStream_t stream) {
  if (!cutlass_can(problem)) return cudaErrorInvalidValue;
  typename Kernel::Arguments arguments{};
  arguments.problem_shape = shape_of(problem);
  arguments.mainloop.ptr_A = static_cast<Half const*>(buffers.input);
  arguments.mainloop.ptr_B = static_cast<Half const*>(buffers.filter);
  auto& epilogue = arguments.epilogue;
  bool const adds = problem.layer.residual != -1;
  // Described to the copy engine in any case.
  epilogue.ptr_C = static_cast<Half const*>(adds ? buffers.residual : buffers.output);
  epilogue.ptr_D = static_cast<Half*>(buffers.output);
  // Columns, rows and images are the modes of a row of the product.
  auto const& strides = arguments.problem_shape.stride_C;
  cute::get<0, 0>(epilogue.dC) = strides[2];
  cute::get<0, 1>(epilogue.dC) = strides[1];
  cute::get<0, 2>(epilogue.dC) = strides[0];
  epilogue.dD = epilogue.dC;
  epilogue.thread.alpha = 1;
  epilogue.thread.beta = adds ? 1.0f : 0.0f;
  epilogue.thread.bias_ptr = static_cast<Half const*>(buffers.bias);
  if (!Kernel::can_implement(arguments)) return cudaErrorInvalidValue;
  auto params = Kernel::to_underlying_arguments(arguments, nullptr);
  auto const function = reinterpret_cast<void const*>(&cutlass::device_kernel<Kernel>);
  constexpr int k_shared = Kernel::SharedStorageSize;
  if (auto const e = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, k_shared);
      e != cudaSuccess)
    return e;
  void* of_kernel[] = {&params};
  return cudaLaunchKernel(function, Kernel::get_grid_shape(params), Kernel::get_block_shape(), of_kernel,
                          k_shared, stream);
}

}  // namespace tessera::bench_convolution
