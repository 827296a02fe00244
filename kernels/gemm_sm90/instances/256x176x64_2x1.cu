// SPDX-License-Identifier: Apache-2.0
#include "../gemm_kernel.cuh"

namespace tessera::gemm_sm90 {

std::vector<Kernel> kernels_256x176x64_2x1() {
  using Tile = TileOf<256, 176, 64, 2, 1, false>;
  return {make_kernel<Shape<Tile, cutlass::bfloat16_t, Gate::swiglu>>("256x176x64_2x1_gated")};
}

}  // namespace tessera::gemm_sm90
