// SPDX-License-Identifier: Apache-2.0
#include "tessera/communicate/row_exchange.hpp"

#include <cuda_runtime_api.h>

namespace tessera {
namespace {

constexpr int k_threads = 256;

/// Blocks of a box take its rows by turns.
__global__ void __launch_bounds__(k_threads) scatter_rows(__grid_constant__ RowExchange const a) {
  int const box = static_cast<int>(blockIdx.y), owner = box / a.boxes, local = box % a.boxes;
  // All blocks add up what is before the box: some hundred numbers at most.
  __shared__ int before;
  if (threadIdx.x == 0) before = 0;
  __syncthreads();
  int sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < box; i += k_threads) sum += max(a.counts[i], 0);
  if (sum != 0) atomicAdd(&before, sum);
  __syncthreads();
  int const all = max(a.counts[box], 0), sent = min(all, a.capacity);
  int const slot = local * a.sources + a.source;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    a.come[owner][slot] = sent;
    atomicMax(a.most, all);
  }
  long long const pieces = a.row_bytes / static_cast<int>(sizeof(uint4));
  auto const* const from = static_cast<uint4 const*>(a.rows) + before * pieces;
  auto* const to = static_cast<uint4*>(a.slots[owner]) + static_cast<long long>(slot) * a.capacity * pieces;
  long long const step = static_cast<long long>(gridDim.x) * k_threads;
  for (long long i = static_cast<long long>(blockIdx.x) * k_threads + threadIdx.x; i < sent * pieces;
       i += step)
    to[i] = from[i];
}

}  // namespace

int send_rows(RowExchange const& exchange, CUstream_st* stream) {
  // Enough for a link from a few boxes, and for the GPU's own memory from many.
  constexpr unsigned k_blocks = 264;
  auto const boxes = static_cast<unsigned>(exchange.ranks * exchange.boxes);
  unsigned const each = (k_blocks + boxes - 1) / boxes;
  scatter_rows<<<dim3(each, boxes), k_threads, 0, stream>>>(exchange);
  return cudaGetLastError();
}

int load_row_exchange() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<void const*>(&scatter_rows));
}

}  // namespace tessera
