// SPDX-License-Identifier: Apache-2.0
// Softmax of rows that arrive in blocks of columns, in powers of two. A thread has two rows, 8 apart, of its
// warp's 16, and of each the columns 8 * j + 2 * (lane % 4) and the next.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "dropout.hpp"
#include "job.cuh"

namespace tessera::attention_sm90 {

__device__ inline float power_of_two(float exponent) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(exponent));
  return power;
}

template <class Element>
__device__ unsigned packed(float first, float second);
template <>
__device__ inline unsigned packed<__nv_bfloat16>(float first, float second) {
  __nv_bfloat162 const pair = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<unsigned const*>(&pair);
}
template <>
__device__ inline unsigned packed<__half>(float first, float second) {
  __half2 const pair = __floats2half2_rn(first, second);
  return *reinterpret_cast<unsigned const*>(&pair);
}

/// Of the four threads that share rows.
__device__ inline float largest_of_four(float value) {
  value = fmaxf(value, __shfl_xor_sync(~0u, value, 1));
  return fmaxf(value, __shfl_xor_sync(~0u, value, 2));
}
__device__ inline float sum_of_four(float value) {
  value += __shfl_xor_sync(~0u, value, 1);
  return value + __shfl_xor_sync(~0u, value, 2);
}

/// What a thread keeps of its two rows.
struct RowState {
  float largest[2] = {-INFINITY, -INFINITY};  ///< of scores so far
  float sum[2] = {0, 0};                      ///< of this thread's weights
};

/// Scores that a row does not see become -infinity. `seen`: of the two rows, in columns of the block, counted
/// from this thread's first one.
template <int Columns>
__device__ inline void hide(float (&scores)[Columns / 2], KeyRange const (&seen)[2]) {
#pragma unroll
  for (int j = 0; j < Columns / 8; ++j)
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        int const column = 8 * j + c;
        float& score = scores[4 * j + 2 * i + c];
        score = column < seen[i].begin || column >= seen[i].end ? -INFINITY : score;
      }
}

/// Scores become weights, 2^(scale * (score - largest)). `shrink`: what earlier sums are to be multiplied by.
template <int Columns>
__device__ inline void weigh(float (&scores)[Columns / 2], RowState& rows, float scale, float (&shrink)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float largest = rows.largest[i];
#pragma unroll
    for (int j = 0; j < Columns / 8; ++j)
      largest = fmaxf(largest, fmaxf(scores[4 * j + 2 * i], scores[4 * j + 2 * i + 1]));
    largest = largest_of_four(largest);
    // A row that has seen nothing yet.
    float const from = largest == -INFINITY ? 0.0f : largest * scale;
    shrink[i] = power_of_two(rows.largest[i] * scale - from);
    rows.largest[i] = largest;
    float sum = rows.sum[i] * shrink[i];
#pragma unroll
    for (int j = 0; j < Columns / 8; ++j)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& score = scores[4 * j + 2 * i + c];
        score = power_of_two(score * scale - from);
        sum += score;
      }
    rows.sum[i] = sum;
  }
}

/// Weights that are dropped become zero. `query`, `key`: of the thread's first row and of the block.
template <int Columns>
__device__ inline void drop(float (&weights)[Columns / 2], Parameters const& p, TilePlace const& place,
                            int query, int key) {
  int const queries = query / 16 * 8 + query % 8, quarter = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int j = 0; j < Columns / 8; j += 2) {
    auto const words =
        drop_words(p.seed, place.sequence, place.head, queries, (key + 8 * j) / 16 * 4 + quarter);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      int const i = e / 4, next = e / 2 % 2, c = e % 2;
      float& weight = weights[4 * (j + next) + 2 * i + c];
      weight = drop_number(words, 2 * i + next, c) < p.drop_below ? 0.0f : weight;
    }
  }
}

/// As the left operand of the second product: element [s] of step s.
template <class Element, int Columns>
__device__ inline void pack(unsigned (&to)[Columns / 16][4], float const (&weights)[Columns / 2]) {
#pragma unroll
  for (int s = 0; s < Columns / 16; ++s)
#pragma unroll
    for (int r = 0; r < 4; ++r)
      to[s][r] = packed<Element>(weights[8 * s + 2 * r], weights[8 * s + 2 * r + 1]);
}

}  // namespace tessera::attention_sm90
