// SPDX-License-Identifier: Apache-2.0
#include "kernels/skinny_gemm_sm90/kernel.cuh"

namespace tessera::skinny_gemm {

Instance instance_32() { return make_instance<32>(); }

}  // namespace tessera::skinny_gemm
