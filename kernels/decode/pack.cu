// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/pack.hpp"

#include <algorithm>

#include "kernels/decode/embed.cuh"
#include "kernels/decode/rotation_table.hpp"

namespace tessera::decode {
namespace {

using Element = __nv_bfloat16;
constexpr int k_threads = 256;

__global__ void __launch_bounds__(k_threads) pack_rows(PackedRows p) {
  for (int row = static_cast<int>(blockIdx.x); row < p.rows; row += static_cast<int>(gridDim.x)) {
    auto const* const from = static_cast<Element const*>(p.from) + static_cast<long long>(row) * p.columns;
    int const place = p.interleaved > 0 ? half_split_row(row, p.interleaved) : row;
    auto* const to =
        static_cast<Element*>(p.to) + (p.first + static_cast<long long>(place) * p.step) * p.columns;
    auto const* const gains = static_cast<Element const*>(p.gains);
    for (int k = static_cast<int>(threadIdx.x); k < p.columns; k += k_threads) {
      auto value = static_cast<float>(from[k]);
      if (gains != nullptr) value *= static_cast<float>(gains[k]);
      if (p.means != nullptr) value -= p.means[k];
      to[k] = static_cast<Element>(value);
    }
  }
}

/// A warp for each row: the sum over its columns of `value(column)`.
template <class Value>
__device__ float sum_of_row(int columns, Value const& value) {
  float sum = 0;
  for (int k = static_cast<int>(threadIdx.x % 32); k < columns; k += 32) sum += value(k);
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
  return sum;
}
__device__ int first_row() { return static_cast<int>((blockIdx.x * k_threads + threadIdx.x) / 32); }
__device__ int all_warps() { return static_cast<int>(gridDim.x * k_threads / 32); }
__device__ bool is_first_lane() { return threadIdx.x % 32 == 0; }

__global__ void __launch_bounds__(k_threads) shift_rows(RowShifts s) {
  auto const* const bias = static_cast<Element const*>(s.bias);
  auto const* const shift = static_cast<Element const*>(s.shift);
  for (int row = first_row(); row < s.rows; row += all_warps()) {
    auto const* const weights =
        static_cast<Element const*>(s.matrix) + static_cast<long long>(row) * s.columns;
    float sum = bias == nullptr ? 0 : static_cast<float>(bias[row]);
    if (shift != nullptr)
      sum += sum_of_row(s.columns,
                        [&](int k) { return static_cast<float>(weights[k]) * static_cast<float>(shift[k]); });
    if (is_first_lane()) s.to[s.interleaved > 0 ? half_split_row(row, s.interleaved) : row] = sum;
  }
}

__global__ void __launch_bounds__(k_threads)
    find_row_means(Element const* matrix, int rows, int columns, float* means) {
  for (int row = first_row(); row < rows; row += all_warps()) {
    auto const* const from = matrix + static_cast<long long>(row) * columns;
    float const sum = sum_of_row(columns, [&](int k) { return static_cast<float>(from[k]); });
    if (is_first_lane()) means[row] = sum / static_cast<float>(columns);
  }
}

__global__ void __launch_bounds__(k_threads)
    find_column_means(Element const* matrix, int rows, int columns, float* means) {
  int const k = static_cast<int>(blockIdx.x * k_threads + threadIdx.x);
  if (k >= columns) return;
  float sum = 0;
#pragma unroll 8
  for (int row = 0; row < rows; ++row)
    sum += static_cast<float>(matrix[static_cast<long long>(row) * columns + k]);
  means[k] = sum / static_cast<float>(rows);
}

__global__ void __launch_bounds__(k_threads) subtract_row_means(float* matrix, int rows, int columns) {
  for (int row = first_row(); row < rows; row += all_warps()) {
    auto* const at = matrix + static_cast<long long>(row) * columns;
    float const mean = sum_of_row(columns, [&](int k) { return at[k]; }) / static_cast<float>(columns);
    for (int k = static_cast<int>(threadIdx.x % 32); k < columns; k += 32) at[k] -= mean;
  }
}

constexpr int k_square = 32;

__global__ void __launch_bounds__(k_square * 8)
    transpose_squares(Element const* from, Element* to, int rows, int columns) {
  __shared__ Element square[k_square][k_square + 2];
  int const x = static_cast<int>(threadIdx.x) % k_square, y = static_cast<int>(threadIdx.x) / k_square;
  int const row = static_cast<int>(blockIdx.y) * k_square, column = static_cast<int>(blockIdx.x) * k_square;
  for (int i = y; i < k_square; i += 8)
    if (row + i < rows && column + x < columns)
      square[i][x] = from[static_cast<long long>(row + i) * columns + column + x];
  __syncthreads();
  for (int i = y; i < k_square; i += 8)
    if (column + i < columns && row + x < rows)
      to[static_cast<long long>(column + i) * rows + row + x] = square[x][i];
}

/// Blocks with a warp for each row, or as many as keep a GPU busy.
unsigned blocks_for(int rows) { return static_cast<unsigned>(std::min((rows + 7) / 8, 4096)); }

__global__ void __launch_bounds__(k_threads) embed_cached(StepEnd end) {
  embed<Element>(end, k_threads, [&](int sequence) {
    return end.ids[static_cast<long long>(sequence) * end.capacity + end.cached[sequence]];
  });
}

/// A thread for each sequence.
__global__ void store_given(StepEnd end, GivenTokens given) {
  int const sequence = static_cast<int>(threadIdx.x);
  if (end.ended[sequence] != 0) return;
  int const token = given.tokens[sequence], position = end.cached[sequence];
  if (token >= 0 && token < given.vocabulary)
    end.ids[static_cast<long long>(sequence) * end.capacity + position] = token;
  else if (given.wrong[sequence] == 0)
    given.wrong[sequence] = position + 1;
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
    embed_piece<Element>(end, row, piece, token, position);
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

cudaError_t add_shifts(RowShifts const& shifts, cudaStream_t stream) {
  shift_rows<<<blocks_for(shifts.rows), k_threads, 0, stream>>>(shifts);
  return cudaGetLastError();
}

cudaError_t row_means(void const* matrix, int rows, int columns, float* means, cudaStream_t stream) {
  find_row_means<<<blocks_for(rows), k_threads, 0, stream>>>(static_cast<Element const*>(matrix), rows,
                                                             columns, means);
  return cudaGetLastError();
}

cudaError_t column_means(void const* matrix, int rows, int columns, float* means, cudaStream_t stream) {
  auto const blocks = static_cast<unsigned>((columns + k_threads - 1) / k_threads);
  find_column_means<<<blocks, k_threads, 0, stream>>>(static_cast<Element const*>(matrix), rows, columns,
                                                      means);
  return cudaGetLastError();
}

cudaError_t center_rows(float* matrix, int rows, int columns, cudaStream_t stream) {
  subtract_row_means<<<blocks_for(rows), k_threads, 0, stream>>>(matrix, rows, columns);
  return cudaGetLastError();
}

cudaError_t transpose(void const* from, void* to, int rows, int columns, cudaStream_t stream) {
  auto const squares = [](int extent) { return static_cast<unsigned>((extent + k_square - 1) / k_square); };
  transpose_squares<<<dim3(squares(columns), squares(rows)), k_square * 8, 0, stream>>>(
      static_cast<Element const*>(from), static_cast<Element*>(to), rows, columns);
  return cudaGetLastError();
}

cudaError_t begin_step(StepEnd const& end, cudaStream_t stream) {
  embed_cached<<<1, k_threads, 0, stream>>>(end);
  return cudaGetLastError();
}

cudaError_t begin_step(StepEnd const& end, GivenTokens const& given, cudaStream_t stream) {
  store_given<<<1, static_cast<unsigned>(end.sequences), 0, stream>>>(end, given);
  if (auto const error = cudaGetLastError(); error != cudaSuccess) return error;
  return begin_step(end, stream);
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
