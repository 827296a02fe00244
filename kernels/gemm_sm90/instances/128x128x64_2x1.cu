// SPDX-License-Identifier: Apache-2.0
#include "../gemm_kernel.cuh"

namespace tessera::gemm_sm90 {
Kernel kernel_128x128x64_2x1() { return make_kernel<Shape<128, 128, 64, 2, 1, true>>("128x128x64_2x1"); }
}  // namespace tessera::gemm_sm90
