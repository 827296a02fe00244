// SPDX-License-Identifier: Apache-2.0
// Matrix products for Hopper whose tiles are waited for and posted: d = activation(a * b^T), bf16 or fp16 in
// and out, fp32 inside. The mathematics is CUTLASS's, unmodified; no type of CUTLASS appears here.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <tessera/cutlass/synchronization.cuh>
#include <tessera/sync.cuh>
#include <tessera/sync/runtime_stage.cuh>
#include <vector>

#include "src/gpu/element_type.hpp"

namespace tessera::gemm_sm90 {

using gpu::ElementType;

enum class Activation {
  none,
  gelu,    ///< tanh form
  swiglu,  ///< of neighbouring columns: d has half of them. By kernels that are `gated`, and by no others
};

/// d[rows][columns] = activation(a[rows][depth] * b[columns][depth]^T), all row-major in device memory, each
/// row 16-byte aligned (d's columns and depth are multiples of 8). swiglu: d[r][f] = silu(s[r][2f]) *
/// s[r][2f + 1] with s = a * b^T.
struct Problem {
  int rows = 0;
  int columns = 0;  ///< rows of b
  int depth = 0;
  void const* a = nullptr;
  void const* b = nullptr;
  void* d = nullptr;
  Activation activation = Activation::none;

  int output_columns() const { return activation == Activation::swiglu ? columns / 2 : columns; }
};

/// Where the blocks that share a tile's depth meet; see split_sizes().
struct SplitBuffers {
  float* sums = nullptr;         ///< anything; nobody else's during the launch
  unsigned* arrivals = nullptr;  ///< zeroed once, before the first launch, for one kernel and size
};

using cutlass_sm90::ProducerTile;

/// One launch. What it waits for and posts is a stage of a plan, under any of its policies: operand a of the
/// stage is `a`, operand b is `b`. A default stage neither waits nor posts.
struct Call {
  Problem problem;
  /// Its grid is d's tiles, columns first. Blocks take tiles by their own numbers, whatever `start` says, and
  /// never store what they can add.
  RuntimeStage stage;
  ChainMemory memory;     ///< of the plan; needed with waits and posts
  DeadlineWatch<> watch;  ///< nanoseconds > 0 and a record: needed with waits
  /// `a` is loaded as its depth gets ready, in tiles of this size: as many as cover it have semaphores in
  /// operand a's set. 0: when all is there that a tile of d reads.
  ProducerTile producer;
  /// Tiles are started column by column within bands of so many rows of tiles: 1 is row by row (rounded up to
  /// the cluster), 0 all rows at once.
  int band = 1;
  int most_blocks = 0;  ///< a persistent grid of so many blocks; 0: one block for each tile
  bool programmatic =
      false;                ///< start when the kernel before has started (PDL) instead of when it is complete
  SplitBuffers split;       ///< of kernels with `splits` > 1
  int shared_percent = -1;  ///< of an SM's memory that the launch wants as shared (gpu::Shape)
};

/// For a call that is in no plan: starts early, and waits for the kernels before as a whole before it reads
/// a. `early_weights`: b's first slices are loaded before that; b must not come from a kernel before.
void start_early(Call& call, bool early_weights);

/// What a planner has to know of a kernel. All true of the compiled code. Every kernel can post and wait.
struct KernelInfo {
  char const* name = "";
  ElementType type = ElementType::bf16;
  bool gated = false;  ///< computes swiglu only; otherwise none and gelu
  /// Computes d^T = b * a^T: d's columns are multiplied 64 at a time and its rows any multiple of 16, which
  /// tile_rows is then. Never with `gated`.
  bool swapped = false;
  int splits =
      1;  ///< blocks that share a tile's depth; they need Call::split, and the last one posts for all
  int tile_rows = 0, tile_columns = 0, tile_depth = 0;  ///< of the product, before a gate halves the columns
  int cluster_rows = 1, cluster_columns = 1;
  bool pingpong = false;  ///< two tiles of a block alternate, one multiplied while the other is stored
  int stages = 0;         ///< slices of tile_depth in flight
  int threads = 0;
  int registers = 0;  ///< per thread at launch; 0 where no GPU could be asked
  int shared_bytes = 0;
};

/// One compiled tile shape. Values are copied freely; they point to static data.
struct Kernel {
  KernelInfo info;
  void const* function = nullptr;
  bool (*can_implement)(Call const&) = nullptr;
  /// Blocks that launch() would start.
  int (*blocks)(Call const&) = nullptr;
  /// Starts the kernel. cudaErrorInvalidValue if can_implement() is false. Capturable.
  cudaError_t (*launch)(Call const&, cudaStream_t) = nullptr;
};

/// All kernels, in a fixed order.
std::vector<Kernel> const& kernels();

/// Those for one type, gated or not.
std::vector<Kernel const*> kernels_for(ElementType type, bool gated);

/// By name, tile and cluster in rows x columns of d ("128x256x64_2x1", "128x256x64_2x1_gated", "..._fp16",
/// "..._gated_fp16", "96x192x64_2x1_swapped", "..._swapped_fp16", "..._swapped_split2"); nullptr if there is
/// none.
Kernel const* find_kernel(char const* name);

/// Lets the kernel use its shared memory, loads its code (a lazily loaded kernel behind one that spins would
/// never start) and reads its registers. Call it once for each kernel before the first launch, per device.
cudaError_t prepare(Kernel const& kernel, KernelInfo* info = nullptr);

/// What a kernel's SplitBuffers have to hold for a problem; nothing for most kernels.
struct SplitSizes {
  std::size_t sum_bytes = 0;  ///< a multiple of 256
  int arrivals = 0;
};
SplitSizes split_sizes(KernelInfo const& kernel, Problem const& problem);

/// The output's tiles: columns, rows.
TileGrid tiles_of(KernelInfo const& kernel, Problem const& problem);

/// One of them in elements, as the stage that reads the output sees it.
ProducerTile output_tile(KernelInfo const& kernel);

}  // namespace tessera::gemm_sm90
