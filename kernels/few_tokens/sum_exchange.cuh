// SPDX-License-Identifier: Apache-2.0
// Sums of warps that share the depth, joined in shared memory, and who finishes which result.
#pragma once

#include "kernels/few_tokens/slot_multiply.cuh"

namespace tessera::few_tokens {

/// [depth group][token][row], in floats; behind the rows of a token the sum of its squares. Where two blocks
/// share the depth, rows are those of both tiles, and to sums is added what the other block sent.
template <class Element, int N>
struct SumExchange {
  using Multiply = SlotMultiply<Element, N>;
  static constexpr int groups = Multiply::depth_groups;

  float* base;
  int rows, tokens;
  int first_row = 0;                ///< of the tile
  float const* received = nullptr;  ///< [token][row of the tile], and the sum of squares; null: all is here
  int received_pitch = 0;
  int received_rows = 0;

  __device__ SumExchange(Product const& p, void* scratch)
      : base(static_cast<float*>(scratch)), rows(16 * p.row_tiles()), tokens(p.tokens) {}

  __device__ float* at(int group, int token, int row) const {
    return base + (group * tokens + token) * exchange_pitch(rows / 16) + row;
  }

  /// Every warp, with as many tiles as it has. Then a barrier.
  template <int Tiles>
  __device__ void store(typename Multiply::Sums const& sums, bool squares) const {
    int const lane = Multiply::lane(), first = lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < N / 8; ++n) {
      float* const to = at(Multiply::depth_group(), 8 * n + first, Multiply::row_group() * 16 + lane / 4);
      bool const one = 8 * n + first < tokens, both = 8 * n + first + 1 < tokens;
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (j % 2 == 0 ? one : both)
            to[j % 2 * exchange_pitch(rows / 16) + tile * Multiply::row_groups * 16 + j / 2 * 8] =
                sums.tile[tile][n][j];
    }
    if (!squares || Multiply::row_group() > 0) return;
#pragma unroll
    for (int n = 0; n < N / 8; ++n) {
      float all = sums.squares[n];
      all += __shfl_xor_sync(~0u, all, 1);
      all += __shfl_xor_sync(~0u, all, 2);
      if (lane % 4 == 0 && 8 * n + lane / 4 < tokens)
        *at(Multiply::depth_group(), 8 * n + lane / 4, rows) = all;
    }
  }

  /// The first result of the calling lane, as for_each_result() deals them. False: it has none.
  __device__ bool first_result(int features, int& token, int& feature) const {
    token = Multiply::warp(), feature = Multiply::lane();
    if (token >= k_warps) return false;
    for (; token >= tokens && feature < features; feature += 32) token -= tokens;
    return feature < features;
  }
  /// `finish(token, feature)` for each result, once: a lane has one feature of 32, warps share tokens and
  /// blocks of 32 features. Warps that another operation of the launch brought have none.
  template <class Finish>
  __device__ void for_each_result(int features, Finish const& finish) const {
    int token = Multiply::warp(), first = 0;
    if (token >= k_warps) return;
    for (;; token += k_warps) {
      for (; token >= tokens && first < features; first += 32) token -= tokens;
      if (first >= features) return;
      if (first + Multiply::lane() < features) finish(token, first + Multiply::lane());
    }
  }

  __device__ bool no_pair() const { return !takes_pairs(N) || received == nullptr; }
  /// Of this block's share of the depth; `row`: of all that it multiplied, or `rows`: squares.
  __device__ float own_sum(int token, int row) const {
    float result = 0;
#pragma unroll
    for (int i = 0; i < groups; ++i) result += *at(i, token, row);
    return result;
  }
  /// `row`: of the tile.
  __device__ float sum(int token, int row) const {
    float const own = own_sum(token, first_row + row);
    return no_pair() ? own : own + received[token * received_pitch + row];
  }
  /// Of the rows 2 * feature and the next: gate and up.
  __device__ float2 sums_of_pair(int token, int feature) const {
    float2 result = {};
#pragma unroll
    for (int i = 0; i < groups; ++i) {
      auto const one = *reinterpret_cast<float2 const*>(at(i, token, first_row + 2 * feature));
      result.x += one.x, result.y += one.y;
    }
    if (no_pair()) return result;
    float const* const sent = received + token * received_pitch + 2 * feature;
    return {result.x + sent[0], result.y + sent[1]};
  }
  /// 1 / sqrt(mean of the token's squares + epsilon).
  __device__ float root_mean_square_scale(Product const& p, int token) const {
    float squares = own_sum(token, rows);
    if (!no_pair()) squares += received[token * received_pitch + received_rows];
    return rsqrtf(squares / static_cast<float>(p.depth) + p.norm_epsilon);
  }
};

}  // namespace tessera::few_tokens
