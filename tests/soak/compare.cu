// SPDX-License-Identifier: Apache-2.0
#include "soak/compare.hpp"

#include <algorithm>

namespace tessera::soak {
namespace {

constexpr unsigned k_threads = 256;

__global__ void compare(unsigned short* got, unsigned short const* expected, std::size_t words, bool poison,
                        Comparisons* comparisons) {
  std::size_t const begin = blockIdx.x * std::size_t{k_threads} + threadIdx.x;
  unsigned long long differing = 0;
  for (std::size_t i = begin; i < words; i += std::size_t{gridDim.x} * k_threads) {
    differing += got[i] != expected[i] ? 1 : 0;
    if (poison) got[i] = 0xffff;
  }
  if (differing > 0) atomicAdd(&comparisons->differing, differing);
  if (begin == 0) atomicAdd(&comparisons->done, 1ull);
}

}  // namespace

cudaError_t enqueue_comparison(void* got, void const* expected, std::size_t words, bool poison,
                               Comparisons* comparisons, cudaStream_t stream) {
  auto const blocks = std::clamp<std::size_t>((words + k_threads - 1) / k_threads, 1, 264);
  compare<<<static_cast<unsigned>(blocks), k_threads, 0, stream>>>(
      static_cast<unsigned short*>(got), static_cast<unsigned short const*>(expected), words, poison,
      comparisons);
  return cudaGetLastError();
}

}  // namespace tessera::soak
