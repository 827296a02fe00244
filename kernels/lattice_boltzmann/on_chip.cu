// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/on_chip.cuh"

namespace tessera::lattice_boltzmann {

void const* chip_kernel_address(bool walls) {
  return walls ? reinterpret_cast<void const*>(&chip_kernel<true>)
               : reinterpret_cast<void const*>(&chip_kernel<false>);
}

}  // namespace tessera::lattice_boltzmann
