// SPDX-License-Identifier: Apache-2.0
// One product by a kernel of CUTLASS's, as the chain sees it: no type of CUTLASS's, C++17.
#pragma once

#include <cuda_runtime_api.h>

#include <tessera/cutlass/synchronization.cuh>

namespace my_gemm {

constexpr int tile_rows = 128, tile_columns = 128, tile_depth = 64;

/// bf16: d[rows][columns] = a[rows][depth] * b[columns][depth]^T, all in device memory.
struct Operands {
  void const* a = nullptr;
  void const* b = nullptr;
  void* d = nullptr;
  int rows = 0, columns = 0, depth = 0;
};

/// How a plan wants its blocks.
struct Grid {
  int band = 1;         ///< rows of tiles that are taken column by column; 0: all
  int most_blocks = 0;  ///< 0: one for each tile
};

/// What the planner must know of the kernel.
struct Resources {
  int threads = 0, shared_bytes = 0, pipeline_stages = 0;
};
Resources resources();

cudaError_t prepare();
void const* function();

/// `early` and `shared_percent` as the plan's launch has them. cudaErrorInvalidValue for what the kernel or
/// its waits cannot do.
cudaError_t launch(Operands const& operands, Grid const& grid,
                   tessera::cutlass_sm90::SynchronizedProduct const& stage, cudaStream_t stream, bool early,
                   int shared_percent);

}  // namespace my_gemm
