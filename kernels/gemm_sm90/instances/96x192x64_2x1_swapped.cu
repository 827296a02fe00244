// SPDX-License-Identifier: Apache-2.0
#include "../gemm_kernel.cuh"

namespace tessera::gemm_sm90 {

std::vector<Kernel> kernels_96x192x64_2x1_swapped() {
  using Tile = SwappedTileOf<96, 192, 64, 2, 1, true>;
  return {make_kernel<Shape<Tile>>("96x192x64_2x1_swapped"),
          make_kernel<Shape<Tile, cutlass::half_t>>("96x192x64_2x1_swapped_fp16")};
}

}  // namespace tessera::gemm_sm90
