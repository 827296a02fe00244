// SPDX-License-Identifier: Apache-2.0
// CUTLASS's Stream-K scheduler with its usual tile: the library's own answer to waves that fit badly. In
// stream order: with its waiting for the kernel before, CUTLASS 4.2's Stream-K does not compile.
#undef CUTLASS_ENABLE_GDC_FOR_SM90

#include <map>
#include <tuple>

#include "bench/mlp/peers.hpp"
#include "stock.cuh"

namespace tessera::bench {
namespace {

template <template <class> class Activation>
struct StreamK {
  using Shape = gemm_sm90::Shape<gemm_sm90::TileOf<128, 256, 64, 2, 1, false>, cutlass::bfloat16_t,
                                 gemm_sm90::Gate::none, false, Activation>;
  using Kernel =
      cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int>, typename Shape::BaseMainloop,
                                           typename Shape::BaseEpilogue, cutlass::gemm::StreamKScheduler>;

  /// Allocated at the first launch of a size. Its counters must be zero when a launch begins: blocks wait
  /// until one equals a number of slices, and the kernel leaves it at their total. CUTLASS's own run() clears
  /// them, too; without that the second launch spins for ever.
  static void* workspace_of(typename Kernel::Arguments const& arguments, gemm_sm90::Problem const& problem,
                            cudaStream_t stream) {
    static std::map<std::tuple<int, int, int>, void*> all;
    void*& memory = all[{problem.rows, problem.columns, problem.depth}];
    if (memory == nullptr && cudaMalloc(&memory, Kernel::get_workspace_size(arguments) + 1) != cudaSuccess)
      return nullptr;
    bool const cleared = Kernel::initialize_workspace(arguments, memory, stream) == cutlass::Status::kSuccess;
    return cleared ? memory : nullptr;
  }

  static cudaError_t launch(gemm_sm90::Call const& call, cudaStream_t stream) {
    auto const* function = reinterpret_cast<void const*>(&cutlass::device_kernel<Kernel>);
    static cudaError_t const prepared = cudaFuncSetAttribute(
        function, cudaFuncAttributeMaxDynamicSharedMemorySize, Kernel::SharedStorageSize);
    if (prepared != cudaSuccess) return prepared;
    auto const base = gemm_sm90::detail::arguments_of<Shape>(call);
    typename Kernel::Arguments arguments{};
    arguments.mode = base.mode;
    arguments.problem_shape = base.problem_shape;
    arguments.mainloop = base.mainloop;
    arguments.epilogue = base.epilogue;
    int multiprocessors = 0;
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
    arguments.hw_info.device_id = 0;
    arguments.hw_info.sm_count = multiprocessors;
    if (!Kernel::can_implement(arguments)) return cudaErrorInvalidValue;
    void* const workspace = workspace_of(arguments, call.problem, stream);
    if (workspace == nullptr) return cudaErrorMemoryAllocation;
    auto params = Kernel::to_underlying_arguments(arguments, workspace);
    return gemm_sm90::detail::start<Kernel>(function, Kernel::get_grid_shape(params), &params, {}, stream);
  }
};

cudaError_t launch(gemm_sm90::Call const& call, cudaStream_t stream) {
  return call.problem.activation == gemm_sm90::Activation::gelu
             ? StreamK<cutlass::epilogue::thread::GELU_taylor>::launch(call, stream)
             : StreamK<cutlass::epilogue::thread::Identity>::launch(call, stream);
}

}  // namespace

gemm_sm90::Kernel stock_stream_k() {
  gemm_sm90::Kernel result;
  result.info.name = "128x256x64_2x1 stream-k";
  result.info.tile_rows = 128;
  result.info.tile_columns = 256;
  result.info.tile_depth = 64;
  result.info.cluster_rows = 2;
  result.launch = &launch;
  return result;
}

}  // namespace tessera::bench
