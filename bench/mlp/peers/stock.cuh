// SPDX-License-Identifier: Apache-2.0
// CUTLASS alone, with its own waiting for the kernel before (compiled with CUTLASS_ENABLE_GDC_FOR_SM90): what
// the kernels of kernels/gemm_sm90 are compared with.
#pragma once

#include <cutlass/device_kernel.h>

#include "kernels/gemm_sm90/gemm_kernel.cuh"

namespace tessera::bench {

/// A kernel that takes what of a Call is not about semaphores.
template <int M, int N, int K, int ClusterM, int ClusterN, bool Pingpong>
struct Stock {
  template <template <class> class Activation>
  using Shape = gemm_sm90::Shape<gemm_sm90::TileOf<M, N, K, ClusterM, ClusterN, Pingpong>,
                                 cutlass::bfloat16_t, gemm_sm90::Gate::none, false, Activation>;
  using Gelu = Shape<cutlass::epilogue::thread::GELU_taylor>;
  using Plain = Shape<cutlass::epilogue::thread::Identity>;

  template <class One>
  static cudaError_t launch_one(gemm_sm90::Call const& call, cudaStream_t stream) {
    using Kernel = typename One::Kernel;
    auto const* function = reinterpret_cast<void const*>(&cutlass::device_kernel<Kernel>);
    static cudaError_t const prepared = cudaFuncSetAttribute(
        function, cudaFuncAttributeMaxDynamicSharedMemorySize, Kernel::SharedStorageSize);
    if (prepared != cudaSuccess) return prepared;
    auto const arguments = gemm_sm90::detail::arguments_of<One>(call);
    if (!Kernel::can_implement(arguments)) return cudaErrorInvalidValue;
    auto params = Kernel::to_underlying_arguments(arguments, nullptr);
    return gemm_sm90::detail::start<Kernel>(function, Kernel::get_grid_shape(params), &params, call, stream);
  }

  static cudaError_t launch(gemm_sm90::Call const& call, cudaStream_t stream) {
    return call.problem.activation == gemm_sm90::Activation::gelu ? launch_one<Gelu>(call, stream)
                                                                  : launch_one<Plain>(call, stream);
  }

  static gemm_sm90::Kernel kernel(char const* name) {
    gemm_sm90::Kernel result;
    result.info.name = name;
    result.info.tile_rows = M;
    result.info.tile_columns = N;
    result.info.tile_depth = K;
    result.info.cluster_rows = ClusterM;
    result.info.cluster_columns = ClusterN;
    result.info.pingpong = Pingpong;
    result.launch = &launch;
    return result;
  }
};

}  // namespace tessera::bench
