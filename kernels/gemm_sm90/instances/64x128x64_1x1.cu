// SPDX-License-Identifier: Apache-2.0
#include "../gemm_kernel.cuh"

namespace tessera::gemm_sm90 {
Kernel kernel_64x128x64_1x1() { return make_kernel<Shape<64, 128, 64, 1, 1, true>>("64x128x64_1x1"); }
}  // namespace tessera::gemm_sm90
