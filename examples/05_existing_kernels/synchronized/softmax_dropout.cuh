// SPDX-License-Identifier: Apache-2.0
// Softmax of a row, then dropout, in one kernel: a block for each row.
#pragma once

#include <cuda_fp16.h>

#include <tessera/sync.cuh>

constexpr int k_softmax_threads = 128;

struct SoftmaxArgs {
  half const* scores;
  half* out;
  int columns;          ///< of a row
  float scale;          ///< of the scores
  unsigned seed;        ///< of the dropout
  unsigned keep_below;  ///< an element stays where its 32 random bits are below this
  float kept_scale;     ///< of what stays
};

/// Random bits that depend on the place and the seed alone.
__host__ __device__ inline unsigned random_bits(unsigned seed, unsigned place) {
  unsigned x = place * 0x9E3779B9u ^ seed;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

/// The sum, or the largest, of a value of each thread; every thread gets it.
template <bool Largest>
__device__ float over_block(float value, float* shared) {
  for (int lane = 16; lane > 0; lane /= 2) {
    float const other = __shfl_xor_sync(0xffffffffu, value, lane);
    value = Largest ? fmaxf(value, other) : value + other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  value = shared[0];
  for (int warp = 1; warp < k_softmax_threads / 32; ++warp)
    value = Largest ? fmaxf(value, shared[warp]) : value + shared[warp];
  return value;
}

template <class Stage>
__global__ void __launch_bounds__(k_softmax_threads) softmax_dropout(SoftmaxArgs const args, Stage stage) {
  __shared__ float shared[k_softmax_threads / 32];
  int const row = stage.start().at[0];
  if (!stage.wait_all(tessera::operand_a)) return;
  half const* const scores = args.scores + 1LL * row * args.columns;
  float largest = -INFINITY;
  for (int i = threadIdx.x; i < args.columns; i += k_softmax_threads)
    largest = fmaxf(largest, args.scale * __half2float(scores[i]));
  largest = over_block<true>(largest, shared);
  float sum = 0;
  for (int i = threadIdx.x; i < args.columns; i += k_softmax_threads)
    sum += __expf(args.scale * __half2float(scores[i]) - largest);
  sum = over_block<false>(sum, shared);
  half* const out = args.out + 1LL * row * args.columns;
  for (int i = threadIdx.x; i < args.columns; i += k_softmax_threads) {
    float const value = __expf(args.scale * __half2float(scores[i]) - largest) / sum;
    bool const stays =
        random_bits(args.seed, static_cast<unsigned>(row * args.columns + i)) < args.keep_below;
    out[i] = __float2half(stays ? value * args.kept_scale : 0.0f);
  }
  stage.post();
}
