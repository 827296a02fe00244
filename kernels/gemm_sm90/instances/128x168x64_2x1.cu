// SPDX-License-Identifier: Apache-2.0
#include "../narrow_kernel.cuh"

namespace tessera::gemm_sm90 {

std::vector<Kernel> kernels_128x168x64_2x1() {
  return {make_kernel<NarrowShape<true>>("128x168x64_2x1"),
          make_kernel<NarrowShape<true, cutlass::bfloat16_t, Gate::swiglu>>("128x168x64_2x1_gated")};
}

}  // namespace tessera::gemm_sm90
