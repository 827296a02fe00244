// SPDX-License-Identifier: Apache-2.0
#include "../gemm_kernel.cuh"

namespace tessera::gemm_sm90 {

std::vector<Kernel> kernels_128x176x64_2x1() {
  using Tile = TileOf<128, 176, 64, 2, 1, true>;
  return {make_kernel<Shape<Tile>>("128x176x64_2x1"),
          make_kernel<Shape<Tile, cutlass::bfloat16_t, Gate::swiglu>>("128x176x64_2x1_gated"),
          make_kernel<Shape<Tile, cutlass::half_t, Gate::swiglu>>("128x176x64_2x1_gated_fp16")};
}

}  // namespace tessera::gemm_sm90
