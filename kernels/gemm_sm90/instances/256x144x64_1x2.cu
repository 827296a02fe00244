// SPDX-License-Identifier: Apache-2.0
#include "../gemm_kernel.cuh"

namespace tessera::gemm_sm90 {

std::vector<Kernel> kernels_256x144x64_1x2() {
  using Tile = TileOf<256, 144, 64, 1, 2, false>;
  return {make_kernel<Shape<Tile>>("256x144x64_1x2")};
}

}  // namespace tessera::gemm_sm90
