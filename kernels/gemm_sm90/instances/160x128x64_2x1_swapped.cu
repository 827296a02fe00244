// SPDX-License-Identifier: Apache-2.0
#include "../gemm_kernel.cuh"

namespace tessera::gemm_sm90 {

std::vector<Kernel> kernels_160x128x64_2x1_swapped() {
  using Tile = SwappedTileOf<160, 128, 64, 2, 1, true>;
  return {make_kernel<Shape<Tile>>("160x128x64_2x1_swapped")};
}

}  // namespace tessera::gemm_sm90
