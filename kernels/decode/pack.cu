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

__global__ void __launch_bounds__(k_threads)
    embed_prompt(PromptTable const __grid_constant__ table, StepEnd end, PromptItem* items) {
  int const row = static_cast<int>(blockIdx.x);
  if (row == 0)
    for (int i = static_cast<int>(threadIdx.x); i < k_most_prompt_items; i += k_threads)
      items[i] = table.items[i];
  auto const [sequence, position] = table.rows[row];
  int const token = sequence < 0 ? -1 : end.ids[static_cast<long long>(sequence) * end.capacity + position];
  for (int piece = static_cast<int>(threadIdx.x); piece < end.hidden / 8; piece += k_threads)
    embed_piece<Element>(end, row, piece, token);
}

/// A thread for each sequence.
__global__ void leave_prompts(StepEnd end) {
  int const sequence = static_cast<int>(threadIdx.x);
  end.cached[sequence] = max(end.cached[sequence], end.known[sequence] - 1);
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

cudaError_t begin_prompt_step(PromptTable const& table, int rows, StepEnd const& end, PromptItem* items,
                              cudaStream_t stream) {
  embed_prompt<<<static_cast<unsigned>(rows), k_threads, 0, stream>>>(table, end, items);
  return cudaGetLastError();
}

cudaError_t end_prompts(StepEnd const& end, cudaStream_t stream) {
  leave_prompts<<<1, static_cast<unsigned>(end.sequences), 0, stream>>>(end);
  if (auto const error = cudaGetLastError(); error != cudaSuccess) return error;
  return begin_step(end, stream);
}

}  // namespace tessera::decode
