// SPDX-License-Identifier: Apache-2.0
#include "../gemm_kernel.cuh"

namespace tessera::gemm_sm90 {

std::vector<Kernel> kernels_256x192x64_2x1() {
  using Tile = TileOf<256, 192, 64, 2, 1, false>;
  return {make_kernel<Shape<Tile>>("256x192x64_2x1"),
          make_kernel<Shape<Tile, cutlass::half_t>>("256x192x64_2x1_fp16")};
}

}  // namespace tessera::gemm_sm90
