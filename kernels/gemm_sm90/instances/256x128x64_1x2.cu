// SPDX-License-Identifier: Apache-2.0
#include "../gemm_kernel.cuh"

namespace tessera::gemm_sm90 {

std::vector<Kernel> kernels_256x128x64_1x2() {
  using Tile = TileOf<256, 128, 64, 1, 2, false>;
  return {make_kernel<Shape<Tile>>("256x128x64_1x2"),
          make_kernel<Shape<Tile, cutlass::bfloat16_t, Gate::swiglu>>("256x128x64_1x2_gated")};
}

}  // namespace tessera::gemm_sm90
