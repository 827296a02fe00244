// SPDX-License-Identifier: Apache-2.0
#include "../gemm_kernel.cuh"

namespace tessera::gemm_sm90 {
Kernel kernel_256x128x64_1x2() { return make_kernel<Shape<256, 128, 64, 1, 2, false>>("256x128x64_1x2"); }
}  // namespace tessera::gemm_sm90
