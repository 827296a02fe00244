// SPDX-License-Identifier: Apache-2.0
#include "../gemm_kernel.cuh"

namespace tessera::gemm_sm90 {
Kernel kernel_128x160x64_2x1() { return make_kernel<Shape<128, 160, 64, 2, 1, false>>("128x160x64_2x1"); }
}  // namespace tessera::gemm_sm90
