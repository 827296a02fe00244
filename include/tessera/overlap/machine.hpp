// SPDX-License-Identifier: Apache-2.0
// What a simulated system of several GPUs consists of, beside the machine profile of one of them.
#pragma once

#include <cstdint>

namespace tessera {

enum class Topology : std::uint8_t {
  ring,             ///< one link to the next GPU and one from the one before
  fully_connected,  ///< a link to every other GPU
};

/// How a memory controller chooses between the accesses of the kernel and those of communication.
enum class Arbitration : std::uint8_t {
  round_robin,          ///< in turn, falling back to the other (T3)
  communication_aware,  ///< compute first, communication below an occupancy threshold (T3-MCA)
  compute_first,        ///< control: compute first, no threshold
};

/// The order in which the tiles of an output (or of a chunk of it) are produced.
enum class Raster : std::uint8_t {
  row,     ///< along N first
  column,  ///< along M first
  swizzle  ///< in bands of eight rows, along M inside a band
};

/// C[m][n] = A[m][k] B[k][n], fp16. A's rows are contiguous in k; B is either [n][k] (a linear layer's
/// forward pass, "transposed") or [k][n] (its backward pass).
struct GemmProblem {
  std::int64_t m = 0, n = 0, k = 0;
  bool b_contiguous_in_k = true;

  bool operator==(GemmProblem const&) const = default;
};

/// How the GEMM is computed.
struct GemmKernel {
  int tile_m = 256, tile_n = 128, tile_k = 32;
  int stages = 2;  ///< slices of k held at once: one computed on, the others on their way
  int groups_per_sm = 1;
  int wavefronts = 8;  ///< of a work-group; each stores its part of the tile
  Raster raster = Raster::row;
  int splits = 1;  ///< of k: work-groups for each tile, whose partial sums are added up

  bool operator==(GemmKernel const&) const = default;
};

}  // namespace tessera
