// SPDX-License-Identifier: Apache-2.0
// Two shapes in one file: they need instructions 80 and 112 wide, for which CUTLASS's headers take half a
// minute.
#define CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED
#include "../gemm_kernel.cuh"
#include "../split_k.cuh"

namespace tessera::gemm_sm90 {

std::vector<Kernel> kernels_80x192x64_2x1_swapped() {
  using Tile = SwappedTileOf<80, 192, 64, 2, 1, true>;
  return {make_kernel<Shape<Tile>>("80x192x64_2x1_swapped"),
          make_kernel<Shape<Tile, cutlass::half_t>>("80x192x64_2x1_swapped_fp16"),
          make_kernel<Shape<SplitInTwo<Tile>>>("80x192x64_2x1_swapped_split2")};
}

std::vector<Kernel> kernels_112x192x64_2x1_swapped() {
  using Tile = SwappedTileOf<112, 192, 64, 2, 1, true>;
  return {make_kernel<Shape<Tile>>("112x192x64_2x1_swapped"),
          make_kernel<Shape<Tile, cutlass::half_t>>("112x192x64_2x1_swapped_fp16"),
          make_kernel<Shape<SplitInTwo<Tile>>>("112x192x64_2x1_swapped_split2")};
}

}  // namespace tessera::gemm_sm90
