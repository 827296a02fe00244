// SPDX-License-Identifier: Apache-2.0
#include "cub_sum.hpp"

#include <cub/device/device_reduce.cuh>

namespace tessera::probe {

std::string cub_version() {
  return std::to_string(CUB_MAJOR_VERSION) + "." + std::to_string(CUB_MINOR_VERSION) + "." +
         std::to_string(CUB_SUBMINOR_VERSION);
}

std::size_t cub_workspace(unsigned count) {
  std::size_t bytes = 0;
  cub::DeviceReduce::Sum(nullptr, bytes, static_cast<float const*>(nullptr), static_cast<float*>(nullptr),
                         count);
  return bytes;
}

cudaError_t cub_sum(void* workspace, std::size_t bytes, float const* x, unsigned count, float* out,
                    cudaStream_t stream) {
  return cub::DeviceReduce::Sum(workspace, bytes, x, out, count, stream);
}

}  // namespace tessera::probe
