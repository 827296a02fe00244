// SPDX-License-Identifier: Apache-2.0
// Device memory that a bound kernel keeps to itself.
#pragma once

#include <memory>

#include "kernels/common/capture.hpp"
#include "kernels/common/refusal.hpp"

namespace tessera::kernels {

/// Zeroed; freed with its last owner. E0511.
inline Expected<std::shared_ptr<unsigned char>> zeroed(std::size_t bytes) {
  RelaxedCapture const relaxed;
  void* memory = nullptr;
  if (auto const error = cudaMalloc(&memory, bytes); error != cudaSuccess)
    return cuda_failed(error, "allocating " + std::to_string(bytes) + " bytes");
  std::shared_ptr<unsigned char> owner(static_cast<unsigned char*>(memory),
                                       [](unsigned char* address) { (void)cudaFree(address); });
  if (auto const error = zero(memory, bytes); error != cudaSuccess)
    return cuda_failed(error, "zeroing " + std::to_string(bytes) + " bytes");
  return owner;
}

}  // namespace tessera::kernels
