// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduction/kernels.cuh"
#include "kernels/reduction/table.hpp"

namespace tessera::reduction {

Kernels fp32_kernels() {
  return {make_kernels<float>(Element::fp32),
          reinterpret_cast<void const*>(second_kernel<float, k_second_threads>), k_second_threads};
}

}  // namespace tessera::reduction
