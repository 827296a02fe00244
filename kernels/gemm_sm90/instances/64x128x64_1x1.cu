// SPDX-License-Identifier: Apache-2.0
#include "../gemm_kernel.cuh"

namespace tessera::gemm_sm90 {

std::vector<Kernel> kernels_64x128x64_1x1() {
  using Tile = TileOf<64, 128, 64, 1, 1, true>;
  return {make_kernel<Shape<Tile>>("64x128x64_1x1")};
}

}  // namespace tessera::gemm_sm90
