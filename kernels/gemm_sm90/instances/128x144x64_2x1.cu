// SPDX-License-Identifier: Apache-2.0
#include "../gemm_kernel.cuh"

namespace tessera::gemm_sm90 {

std::vector<Kernel> kernels_128x144x64_2x1() {
  using Tile = TileOf<128, 144, 64, 2, 1, true>;
  return {make_kernel<Shape<Tile>>("128x144x64_2x1")};
}

}  // namespace tessera::gemm_sm90
