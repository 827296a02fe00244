// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/pack.hpp"

#include <algorithm>

#include "kernels/decode/embed.cuh"

namespace tessera::decode {
namespace {

using Element = __nv_bfloat16;
constexpr int k_threads = 256;

__global__ void __launch_bounds__(k_threads) pack_rows(PackedRows p) {
  for (int row = static_cast<int>(blockIdx.x); row < p.rows; row += static_cast<int>(gridDim.x)) {
    auto const* const from = static_cast<Element const*>(p.from) + static_cast<long long>(row) * p.columns;
    auto* const to =
        static_cast<Element*>(p.to) + (p.first + static_cast<long long>(row) * p.step) * p.columns;
    auto const* const gains = static_cast<Element const*>(p.gains);
    for (int k = static_cast<int>(threadIdx.x); k < p.columns; k += k_threads)
      to[k] = gains == nullptr
                  ? from[k]
                  : static_cast<Element>(static_cast<float>(from[k]) * static_cast<float>(gains[k]));
  }
}

__global__ void __launch_bounds__(k_threads) embed_cached(StepEnd end) {
  embed<Element>(end, k_threads, [&](int sequence) {
    return end.ids[static_cast<long long>(sequence) * end.capacity + end.cached[sequence]];
  });
}

}  // namespace

cudaError_t pack(PackedRows const& rows, cudaStream_t stream) {
  pack_rows<<<static_cast<unsigned>(std::min(rows.rows, 4096)), k_threads, 0, stream>>>(rows);
  return cudaGetLastError();
}

cudaError_t begin_step(StepEnd const& end, cudaStream_t stream) {
  embed_cached<<<1, k_threads, 0, stream>>>(end);
  return cudaGetLastError();
}

}  // namespace tessera::decode
