// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "soak/hold_sms.hpp"

namespace tessera::soak {
namespace {

constexpr int k_shared = 200 * 1024;

__global__ void hold(unsigned long long nanoseconds) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    __nanosleep(1000);
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
}

}  // namespace

int prepare_to_hold() {
  return cudaFuncSetAttribute(hold, cudaFuncAttributeMaxDynamicSharedMemorySize, k_shared);
}

int hold_sms(int blocks, int milliseconds, GpuStream stream) {
  hold<<<static_cast<unsigned>(blocks), 1024, k_shared, stream>>>(1000000ull *
                                                                  static_cast<unsigned>(milliseconds));
  return cudaGetLastError();
}

}  // namespace tessera::soak
