// SPDX-License-Identifier: Apache-2.0
// What one warp does of attention: 16 positions at a time by matrix instructions, with 8 or 16 queries of a
// key head as rows. Softmax goes along: what has been added so far is relative to the largest score so far.
#pragma once

#include "kernels/decode/bulk_load.cuh"
#include "kernels/decode/cache.hpp"
#include "kernels/decode/rotation_table.hpp"
#include "kernels/few_tokens/warp_multiply.cuh"

namespace tessera::decode {

/// As load_matrices(); result i holds of matrix i rows 2 * (l % 4) and the next, column l / 4.
__device__ inline void load_transposed(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

template <class Element>
__device__ inline float2 unpacked(unsigned pair) {
  return make_float2(
      static_cast<float>(__builtin_bit_cast(Element, static_cast<unsigned short>(pair))),
      static_cast<float>(__builtin_bit_cast(Element, static_cast<unsigned short>(pair >> 16))));
}
template <class Element>
__device__ inline unsigned packed(float low, float high) {
  return __builtin_bit_cast(unsigned short, static_cast<Element>(low)) |
         static_cast<unsigned>(__builtin_bit_cast(unsigned short, static_cast<Element>(high))) << 16;
}

/// Two dimensions and their partners, turned in place. `by`: cosine and sine of the first, and of the next.
template <class Element>
__device__ inline void turn_pairs(unsigned& low, unsigned& high, float4 const& by, float2 const& l,
                                  float2 const& h) {
  low = packed<Element>(l.x * by.x - h.x * by.y, l.y * by.z - h.y * by.w);
  high = packed<Element>(h.x * by.x + l.x * by.y, h.y * by.z + l.y * by.w);
}
template <class Element>
__device__ inline void turn_pairs(unsigned& low, unsigned& high, float4 const& by) {
  turn_pairs<Element>(low, high, by, unpacked<Element>(low), unpacked<Element>(high));
}

/// RMSNorm of a head in fp32, without a rounding of its own: two elements, times their gains.
template <class Element>
__device__ inline float2 normed(unsigned pair, float scale, unsigned gains) {
  float2 const x = unpacked<Element>(pair), by = unpacked<Element>(gains);
  return make_float2(x.x * scale * by.x, x.y * scale * by.y);
}
template <class Element>
__device__ inline float squares_of(unsigned pair) {
  float2 const x = unpacked<Element>(pair);
  return x.x * x.x + x.y * x.y;
}
/// The sum over the lane and the others of so many, a power of two, that stand one behind the other. All
/// lanes of `together` call it.
template <int Lanes>
__device__ inline float sum_of_lanes(float value, unsigned together = ~0u) {
#pragma unroll
  for (int apart = 1; apart < Lanes; apart *= 2) value += __shfl_xor_sync(together, value, apart);
  return value;
}

/// Sums of parts, each relative to its largest score: put together in the order of add().
struct Joined {
  float most = -INFINITY, total = 0, sum = 0;

  /// `weight`: the largest score and the sum of weights; a part without positions has -infinity and 0.
  __device__ void add(float2 weight, float part) {
    if (weight.x == -INFINITY) return;
    float const now = fmaxf(most, weight.x);
    float const before = exp2f(most - now), of_part = exp2f(weight.x - now);
    total = total * before + weight.y * of_part;
    sum = sum * before + part * of_part;
    most = now;
  }
};

/// `Halves`: of the 16 rows of a matrix instruction, 8 queries each.
template <class Element, int HeadSize, int Halves = 1>
struct AttentionWarp {
  static constexpr int steps = HeadSize / 16;
  static constexpr int row_bytes = HeadSize * static_cast<int>(sizeof(Element));
  /// Of a vector of HeadSize elements: [step][half], elements 16 * step + 8 * half + 2 * (lane % 4) and the
  /// next.
  using Fragment = unsigned[steps][2];
  /// Cosine and sine of the elements of the first half of the steps, and of the next.
  using Turns = float4[steps / 2][2];

  /// Lane l, half h: of query 8 * h + l / 4.
  Fragment queries[Halves];
  float most[Halves], total[Halves];
  float sums[HeadSize / 8][4] = {};  ///< as in warp_multiply.cuh; of one half [2] and [3] are of no query
  float scale;

  __device__ explicit AttentionWarp(float scores_times) : scale(scores_times) {
#pragma unroll
    for (int r = 0; r < Halves; ++r) most[r] = -INFINITY, total[r] = 0;
  }

  __device__ static int lane() { return static_cast<int>(threadIdx.x % 32); }
  __device__ static int element(int step, int half) { return 16 * step + 8 * half + lane() % 4 * 2; }

  __device__ static void load_turns(Turn const* of_position, Turns& turns) {
#pragma unroll
    for (int s = 0; s < steps / 2; ++s)
#pragma unroll
      for (int h = 0; h < 2; ++h)
        turns[s][h] = __ldg(reinterpret_cast<float4 const*>(of_position + element(s, h)));
  }

  /// A vector in shared memory, turned by its position.
  __device__ static void load_turned(unsigned address, Turns const& turns, Fragment& to) {
#pragma unroll
    for (int s = 0; s < steps / 2; ++s)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        to[s][h] = load_shared(address + 2 * element(s, h));
        to[s + steps / 2][h] = load_shared(address + 2 * element(s + steps / 2, h));
        turn_pairs<Element>(to[s][h], to[s + steps / 2][h], turns[s][h]);
      }
  }

  /// Of HeadSize gains in device memory, which no stage of the launch writes.
  __device__ static void load_gains(Element const* gains, Fragment& to) {
#pragma unroll
    for (int s = 0; s < steps; ++s)
#pragma unroll
      for (int h = 0; h < 2; ++h) to[s][h] = __ldg(reinterpret_cast<unsigned const*>(gains + element(s, h)));
  }
  /// A vector that the four lanes of a query hold, normed, and turned by its position. All lanes of the warp.
  __device__ static void norm_and_turn(Fragment const& gains, float epsilon, Turns const& turns,
                                       Fragment& vector) {
    float squares = 0;
#pragma unroll
    for (int s = 0; s < steps; ++s)
#pragma unroll
      for (int h = 0; h < 2; ++h) squares += squares_of<Element>(vector[s][h]);
    float const scale = rsqrtf(sum_of_lanes<4>(squares) / HeadSize + epsilon);
#pragma unroll
    for (int s = 0; s < steps / 2; ++s)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        auto &low = vector[s][h], &high = vector[s + steps / 2][h];
        turn_pairs<Element>(low, high, turns[s][h], normed<Element>(low, scale, gains[s][h]),
                            normed<Element>(high, scale, gains[s + steps / 2][h]));
      }
  }
  /// As load_turned().
  __device__ static void load_normed(unsigned address, Fragment const& gains, float epsilon,
                                     Turns const& turns, Fragment& to) {
#pragma unroll
    for (int s = 0; s < steps; ++s)
#pragma unroll
      for (int h = 0; h < 2; ++h) to[s][h] = load_shared(address + 2 * element(s, h));
    norm_and_turn(gains, epsilon, turns, to);
  }

  /// Where the lane's query is of `group`. Lanes beyond the group repeat its last one; what they come to
  /// nobody reads.
  __device__ static unsigned query_address(unsigned address, int group) {
    return address + min(lane() / 4, group - 1) * row_bytes;
  }

  /// The new token's turned key, and its value in shared memory.
  __device__ void begin_with(Fragment const& key, unsigned value) {
    Fragment loaded;
#pragma unroll
    for (int s = 0; s < steps; ++s)
#pragma unroll
      for (int h = 0; h < 2; ++h) loaded[s][h] = load_shared(value + 2 * element(s, h));
    begin_with(key, loaded);
  }
  __device__ void begin_with(Fragment const& key, Fragment const& value) {
    float score = 0;
#pragma unroll
    for (int s = 0; s < steps; ++s)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float2 const q = unpacked<Element>(queries[0][s][h]), k = unpacked<Element>(key[s][h]);
        score += q.x * k.x + q.y * k.y;
      }
    score += __shfl_xor_sync(~0u, score, 1);
    score += __shfl_xor_sync(~0u, score, 2);
    most[0] = score * scale;
    total[0] = lane() % 4 == 0 ? 1.0f : 0.0f;
#pragma unroll
    for (int n = 0; n < HeadSize / 8; ++n) {
      float2 const v = unpacked<Element>(value[n / 2][n % 2]);
      sums[n][0] = v.x, sums[n][1] = v.y;
    }
  }

  /// Rows of 16 positions in shared memory, of which the first `count` are there. The first one's position is
  /// a multiple of 8. What lies behind them may be anything.
  __device__ void add_block(unsigned keys, unsigned values, int count) {
    int seen[Halves];
#pragma unroll
    for (int r = 0; r < Halves; ++r) seen[r] = count;
    add_block(keys, values, count, seen);
  }
  /// The same where the lane's query of half h sees the first seen[h] of the rows, `count` at most. Of the
  /// first block that is added each query sees one row at least.
  __device__ void add_block(unsigned keys, unsigned values, int count, int const (&seen)[Halves]) {
    int const unseen[Halves] = {};
    add_block<false>(keys, values, count, seen, unseen);
  }
  /// The same, but for `Windows` where it does not see the first unseen[h], which are numbers all the same.
  /// That may be all.
  template <bool Windows>
  __device__ void add_block(unsigned keys, unsigned values, int count, int const (&seen)[Halves],
                            int const (&unseen)[Halves]) {
    int const matrix = lane() / 8, row = lane() % 8;
    float score[2][4] = {};
    unsigned const key_row = keys + (matrix / 2 * 8 + row) * row_bytes;
#pragma unroll
    for (int s = 0; s < steps; ++s) {
      unsigned k[4];
      few_tokens::load_matrices(k, key_row + ((2 * s + matrix % 2) ^ turn_of_row(row, HeadSize)) * 16);
      unsigned q[4] = {};
#pragma unroll
      for (int r = 0; r < Halves; ++r) q[r] = queries[r][s][0], q[2 + r] = queries[r][s][1];
      few_tokens::multiply_warp<Element>(score[0], q, k[0], k[1]);
      few_tokens::multiply_warp<Element>(score[1], q, k[2], k[3]);
    }
    // Positions 8 * n + first and the next.
    int const first = lane() % 4 * 2;
    unsigned weights[4] = {};
#pragma unroll
    for (int r = 0; r < Halves; ++r) {
      float now = most[r];
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          auto& one = score[n][2 * r + j];
          int const position = 8 * n + first + j;
          bool const sees = position < seen[r] && (!Windows || position >= unseen[r]);
          one = sees ? one * scale : -INFINITY;
          now = fmaxf(now, one);
        }
      now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
      now = fmaxf(now, __shfl_xor_sync(~0u, now, 2));
      // Of no score that is a number yet: weights are 0, not what infinities come to.
      float const relative_to = Windows && now == -INFINITY ? 0 : now;
      float const before = exp2f(most[r] - relative_to);
      most[r] = now;
      total[r] *= before;
#pragma unroll
      for (int n = 0; n < HeadSize / 8; ++n) sums[n][2 * r] *= before, sums[n][2 * r + 1] *= before;
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        float const a = exp2f(score[n][2 * r] - relative_to), b = exp2f(score[n][2 * r + 1] - relative_to);
        total[r] += a + b;
        weights[2 * n + r] = packed<Element>(a, b);
      }
    }
    unsigned const value_row = values + (matrix % 2 * 8 + row) * row_bytes;
#pragma unroll
    for (int s = 0; s < steps; ++s) {
      unsigned v[4];
      load_transposed(v, value_row + ((2 * s + matrix / 2) ^ turn_of_row(row, HeadSize)) * 16);
      // A weight of 0 times what is no number would be no number.
      if (count < k_position_block)
#pragma unroll
        for (int j = 0; j < 4; ++j) v[j] &= there(j % 2 * 8 + first, count);
      few_tokens::multiply_warp<Element>(sums[2 * s], weights, v[0], v[1]);
      few_tokens::multiply_warp<Element>(sums[2 * s + 1], weights, v[2], v[3]);
    }
  }

  /// The lanes of a query add up its weights.
  __device__ void finish() {
#pragma unroll
    for (int r = 0; r < Halves; ++r) {
      total[r] += __shfl_xor_sync(~0u, total[r], 1);
      total[r] += __shfl_xor_sync(~0u, total[r], 2);
    }
  }

 private:
  /// Bits of the pair of elements of `position` and the next that are of one of the first `count`.
  __device__ static unsigned there(int position, int count) {
    return (position < count ? 0xffffu : 0) | (position + 1 < count ? 0xffff0000u : 0);
  }
};

}  // namespace tessera::decode
