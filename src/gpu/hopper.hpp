// SPDX-License-Identifier: Apache-2.0
// Whether this machine's GPU can run what is built for Hopper.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace tessera::gpu {

/// Empty if device 0 can; else a sentence that says why not (E0933).
inline std::string why_no_hopper() {
  cudaDeviceProp device{};
  if (auto const status = cudaGetDeviceProperties(&device, 0); status != cudaSuccess)
    return std::string("no GPU can be used: ") +
           (status == cudaErrorInsufficientDriver
                ? "there is no driver, or one that is older than this program"
                : cudaGetErrorString(status));
  if (device.major == 9) return "";
  return std::string(device.name) + " is no Hopper GPU: these kernels are built for those";
}

/// For a program that refuses by itself, in the words of a diagnostic.
inline std::string refusal_text(std::string const& why) {
  return "error E0933: " + why +
         "\n   hint: run this on a machine with a Hopper GPU; plans, simulations and predictions need none"
         "\n   more: tessera explain E0933\n";
}

}  // namespace tessera::gpu
