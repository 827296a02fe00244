// SPDX-License-Identifier: Apache-2.0
// Registers by role: warps that load give theirs to warps that compute (PTX ISA, setmaxnreg). For sm_90a.
#pragma once

#include "../sync/config.cuh"

namespace tessera::detail {

constexpr int k_fewest_loader_registers = 56;  ///< a warp that fetches jobs needs no more

/// Registers of a thread that needs to load for this operation; 0: it does not say.
template <class Operation>
TESSERA_HOST_DEVICE constexpr auto loader_registers(bool, int)
    -> decltype(static_cast<int>(Operation::loader_registers)) {
  static_assert(Operation::loader_registers >= k_fewest_loader_registers &&
                    Operation::loader_registers <= 240 && Operation::loader_registers % 8 == 0,
                "loader_registers is a multiple of 8 from 56 to 240");
  return Operation::loader_registers;
}
template <class Operation>
TESSERA_HOST_DEVICE constexpr int loader_registers(bool has_roles, long) {
  return has_roles ? 0 : k_fewest_loader_registers;
}

/// Of a thread. Both 0: all threads have as many.
struct RoleRegisters {
  int loader = 0, computer = 0;
};

/// Registers of a thread, by role. They are divided between whole warpgroups, if `loader_registers` is less
/// than an even share.
TESSERA_HOST_DEVICE constexpr RoleRegisters divide_registers(int computers, int loaders,
                                                             int loader_registers) {
  constexpr int of_sm = 65536, most = 240, warpgroup = 128;
  int const even = of_sm / (computers + loaders) / 8 * 8;
  if (loader_registers == 0 || loader_registers >= even || even > most || computers % warpgroup != 0 ||
      loaders % warpgroup != 0)
    return {};
  int const computer = (even * (computers + loaders) - loader_registers * loaders) / computers / 8 * 8;
  return {loader_registers, computer > most ? most : computer};
}

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

template <int Registers>
__device__ void take_registers() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  if constexpr (Registers != 0) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
#endif
}
template <int Registers>
__device__ void give_registers() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  if constexpr (Registers != 0) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
#endif
}

#endif

}  // namespace tessera::detail
