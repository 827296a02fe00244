// SPDX-License-Identifier: Apache-2.0
// A tiled GEMM as one writes it by hand: fp16, 64 x 64 tiles, four warps, tensor cores through wmma.
#pragma once

#include <cuda_fp16.h>
#include <mma.h>

#include <tessera/sync.cuh>

constexpr int k_tile = 64;
constexpr int k_slice = 32;
constexpr int k_gemm_threads = 128;

/// out[rows x columns] = a[rows x depth] * b[depth x columns], row major; multiples of the tile.
struct GemmArguments {
  half const* a;
  half const* b;
  half* out;
  int columns;
  int depth;
};

/// Copies a box of `Rows` x `Columns` into shared memory, eight elements a thread and step.
template <int Rows, int Columns, int Stride>
__device__ void load_box(half (&to)[Rows][Stride], half const* from, int stride) {
  constexpr int per_row = Columns / 8;
  for (int i = threadIdx.x; i < Rows * per_row; i += k_gemm_threads) {
    int const row = i / per_row;
    int const column = i % per_row * 8;
    *reinterpret_cast<uint4*>(&to[row][column]) =
        *reinterpret_cast<uint4 const*>(from + 1LL * row * stride + column);
  }
}

template <class Stage>
__global__ void __launch_bounds__(k_gemm_threads) gemm(GemmArguments const args, Stage stage) {
  using namespace nvcuda;
  __shared__ __align__(32) half a[k_tile][k_slice + 8];
  __shared__ __align__(32) half b[k_slice][k_tile + 8];
  __shared__ __align__(32) float result[k_tile][k_tile + 8];
  tessera::Tile const tile = stage.start();
  int const column = tile.at[0];
  int const row = tile.at[1];
  int const warp = threadIdx.x / 32;
  int const warp_row = warp / 2 * 32;
  int const warp_column = warp % 2 * 32;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2][2];
  for (auto& line : sum)
    for (auto& part : line) wmma::fill_fragment(part, 0.0f);

  for (int k = 0; k < args.depth; k += k_slice) {
    __syncthreads();
    if (!stage.wait(tessera::operand_a, {{k / k_tile, row}})) return;
    load_box<k_tile, k_slice>(a, args.a + 1LL * row * k_tile * args.depth + k, args.depth);
    load_box<k_slice, k_tile>(b, args.b + 1LL * k * args.columns + column * k_tile, args.columns);
    __syncthreads();
    for (int step = 0; step < k_slice; step += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right[2];
      for (int i = 0; i < 2; ++i) {
        wmma::load_matrix_sync(left[i], &a[warp_row + 16 * i][step], k_slice + 8);
        wmma::load_matrix_sync(right[i], &b[step][warp_column + 16 * i], k_tile + 8);
      }
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) wmma::mma_sync(sum[i][j], left[i], right[j], sum[i][j]);
    }
  }

  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      wmma::store_matrix_sync(&result[warp_row + 16 * i][warp_column + 16 * j], sum[i][j], k_tile + 8,
                              wmma::mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < k_tile * k_tile / 2; i += k_gemm_threads) {
    int const line = i / (k_tile / 2);
    int const at = i % (k_tile / 2) * 2;
    half* const out = args.out + (1LL * row * k_tile + line) * args.columns + column * k_tile + at;
    *reinterpret_cast<half2*>(out) = __floats2half2_rn(result[line][at], result[line][at + 1]);
  }
  stage.post();
}
