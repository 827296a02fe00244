// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduction/kernels.cuh"
#include "kernels/reduction/table.hpp"

namespace tessera::reduction {

Kernels int32_kernels() {
  return {make_kernels<unsigned>(Element::int32),
          reinterpret_cast<void const*>(second_kernel<unsigned, k_second_threads>), k_second_threads};
}

}  // namespace tessera::reduction
