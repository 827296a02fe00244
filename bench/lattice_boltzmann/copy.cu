// SPDX-License-Identifier: Apache-2.0
#include "bench/lattice_boltzmann/copy.hpp"

namespace tessera::lattice_boltzmann {
namespace {

constexpr int k_threads = 512, k_each = 4;

__global__ void __launch_bounds__(k_threads)
    copy_kernel(float4 const* __restrict__ from, float4* __restrict__ to) {
  std::size_t const first = static_cast<std::size_t>(blockIdx.x) * (k_threads * k_each) + threadIdx.x;
  float4 values[k_each];
#pragma unroll
  for (int i = 0; i < k_each; ++i) values[i] = __ldcs(from + first + i * k_threads);
#pragma unroll
  for (int i = 0; i < k_each; ++i) __stcs(to + first + i * k_threads, values[i]);
}

}  // namespace

cudaError_t copy(void const* from, void* to, std::size_t bytes, cudaStream_t stream) {
  auto const blocks = static_cast<unsigned>(bytes / (k_threads * k_each * sizeof(float4)));
  copy_kernel<<<blocks, k_threads, 0, stream>>>(static_cast<float4 const*>(from), static_cast<float4*>(to));
  return cudaGetLastError();
}

}  // namespace tessera::lattice_boltzmann
