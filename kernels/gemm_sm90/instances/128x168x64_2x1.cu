// SPDX-License-Identifier: Apache-2.0
#include "../narrow_kernel.cuh"

namespace tessera::gemm_sm90 {

std::vector<Kernel> kernels_128x168x64_2x1() {
  return {make_kernel<NarrowShape<true>>("128x168x64_2x1"),
          make_kernel<NarrowShape<true, cutlass::bfloat16_t, Gate::swiglu>>("128x168x64_2x1_gated"),
          make_kernel<NarrowShape<true, cutlass::half_t, Gate::swiglu>>("128x168x64_2x1_gated_fp16")};
}

}  // namespace tessera::gemm_sm90
