// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduction/kernels.cuh"
#include "kernels/reduction/table.hpp"

namespace tessera::reduction {

Kernels fp64_kernels() {
  return {make_kernels<double>(Element::fp64),
          reinterpret_cast<void const*>(second_kernel<double, k_second_threads>), k_second_threads};
}

}  // namespace tessera::reduction
