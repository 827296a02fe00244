// SPDX-License-Identifier: Apache-2.0
// Tile functions of attention as separate kernels: products of each head by wmma, and softmax with dropout.
#pragma once

#include <cuda_bf16.h>
#include <cuda_pipeline_primitives.h>
#include <mma.h>

#include "kernels/attention_sm90/dropout.hpp"
#include "kernels/unfused_attention/unfused_plan.hpp"
#include "tessera/run/run_tiles.hpp"

namespace tessera::unfused_attention {

/// A matrix for each head of each sequence, in elements; heads of a group share one.
struct Heads {
  __nv_bfloat16* data;
  long long row, sequence, head;
  int group;

  __device__ __nv_bfloat16* of(int of_sequence, int of_head) const {
    return data + of_sequence * sequence + of_head / group * head;
  }
};

/// out[rows][columns] = a[rows][depth] * b, of each head. b is [columns][depth] if `Transposed`, else
/// [depth][columns]. Columns and depth are multiples of 8.
template <bool Transposed>
struct HeadsProduct {
  static constexpr int threads = 128, warp_rows = k_tile_rows / 2, warp_columns = k_tile_columns / 2;
  static constexpr int padding = 8, vector = 8, part = 16;
  static constexpr int a_row = k_slice + padding, b_row = (Transposed ? k_slice : k_tile_columns) + padding;
  static constexpr int b_rows = Transposed ? k_tile_columns : k_slice;
  static constexpr int a_numbers = k_tile_rows * a_row, b_numbers = b_rows * b_row;
  static constexpr int shared_bytes = 2 * (a_numbers + b_numbers) * static_cast<int>(sizeof(__nv_bfloat16));

  Heads a, b, out;
  int rows, columns, depth, heads;

  /// Rows [first, first + Rows) and as many columns, eight at a time; zeros beyond the matrix.
  template <int Rows, int Columns, int Row>
  static __device__ void load(__nv_bfloat16* to, __nv_bfloat16 const* from, long long stride, int first,
                              int column, int of_rows, int of_columns) {
    constexpr int per_row = Columns / vector;
    for (int i = threadIdx.x; i < Rows * per_row; i += threads) {
      int const row = i / per_row, at = i % per_row * vector;
      bool const there = first + row < of_rows && column + at < of_columns;
      auto const* place = there ? from + (first + row) * stride + column + at : from;
      __pipeline_memcpy_async(to + row * Row + at, place, 16, there ? 0 : 16);
    }
  }

  __device__ void operator()(Tile tile, Context& context) const {
    using namespace nvcuda;
    int const sequence = tile.at[2] / heads, head = tile.at[2] % heads;
    int const column = tile.at[0] * k_tile_columns, row = tile.at[1] * k_tile_rows;
    auto const *from_a = a.of(sequence, head), *from_b = b.of(sequence, head);
    auto* const shared = reinterpret_cast<__nv_bfloat16*>(context.shared);
    auto const slice_a = [&](int s) { return shared + s % 2 * (a_numbers + b_numbers); };
    auto const fetch = [&](int s) {
      int const k = s * k_slice;
      load<k_tile_rows, k_slice, a_row>(slice_a(s), from_a, a.row, row, k, rows, depth);
      auto* const to = slice_a(s) + a_numbers;
      if constexpr (Transposed)
        load<k_tile_columns, k_slice, b_row>(to, from_b, b.row, column, k, columns, depth);
      else
        load<k_slice, k_tile_columns, b_row>(to, from_b, b.row, k, column, depth, columns);
      __pipeline_commit();
    };
    int const warp = threadIdx.x / 32;
    int const warp_row = warp / 2 * warp_rows, warp_column = warp % 2 * warp_columns;
    constexpr int down = warp_rows / part, across = warp_columns / part;
    wmma::fragment<wmma::accumulator, part, part, part, float> sum[down][across];
    for (auto& line : sum)
      for (auto& one : line) wmma::fill_fragment(one, 0.0f);

    __syncthreads();  // the tile before has been stored
    int const slices = (depth + k_slice - 1) / k_slice;
    fetch(0);
    for (int s = 0; s < slices; ++s) {
      if (s + 1 < slices) fetch(s + 1);
      __pipeline_wait_prior(s + 1 < slices ? 1 : 0);
      __syncthreads();
      auto const *left_at = slice_a(s), *right_at = left_at + a_numbers;
      for (int k = 0; k < k_slice; k += part) {
        using Layout = std::conditional_t<Transposed, wmma::col_major, wmma::row_major>;
        wmma::fragment<wmma::matrix_a, part, part, part, __nv_bfloat16, wmma::row_major> left[down];
        wmma::fragment<wmma::matrix_b, part, part, part, __nv_bfloat16, Layout> right[across];
        for (int i = 0; i < down; ++i)
          wmma::load_matrix_sync(left[i], left_at + (warp_row + part * i) * a_row + k, a_row);
        for (int j = 0; j < across; ++j) {
          int const at = warp_column + part * j;
          wmma::load_matrix_sync(right[j], right_at + (Transposed ? at * b_row + k : k * b_row + at), b_row);
        }
        for (int i = 0; i < down; ++i)
          for (int j = 0; j < across; ++j) wmma::mma_sync(sum[i][j], left[i], right[j], sum[i][j]);
      }
      __syncthreads();
    }

    // Each warp by itself, a part at a time.
    auto* const staged = reinterpret_cast<float*>(shared) + warp * part * part;
    int const lane = threadIdx.x % 32, line = lane / 2, first = lane % 2 * vector;
    auto* const to = out.of(sequence, head);
    for (int i = 0; i < down; ++i)
      for (int j = 0; j < across; ++j) {
        wmma::store_matrix_sync(staged, sum[i][j], part, wmma::mem_row_major);
        __syncwarp();
        int const r = row + warp_row + part * i + line, c = column + warp_column + part * j + first;
        if (r < rows && c < columns) {
          union {
            uint4 bits;
            __nv_bfloat162 pairs[vector / 2];
          } stored;
          for (int v = 0; v < vector; v += 2)
            stored.pairs[v / 2] =
                __floats2bfloat162_rn(staged[line * part + first + v], staged[line * part + first + v + 1]);
          *reinterpret_cast<uint4*>(to + r * out.row + c) = stored.bits;
        }
        __syncwarp();
      }
  }
};

/// Weights of a row of scores, dropped by the numbers that attention in one kernel drops by: a warp a row.
struct HeadsSoftmax {
  static constexpr int threads = 32 * k_softmax_rows;

  __nv_bfloat16 const* scores;
  __nv_bfloat16* weights;
  int rows, columns, heads;
  float scale;  ///< of scores, times log2(e)
  unsigned drop_below;
  unsigned long long seed;
  float kept_scale;

  /// use(place, first key) for each pair of keys of this lane: of 16 keys four lanes have two pairs each,
  /// eight keys apart, whose numbers are drawn together.
  template <class Use>
  __device__ void for_pairs(Use use) const {
    int const lane = threadIdx.x % 32;
    for (int base = lane / 4 * 16; base < columns; base += 128)
      for (int half = 0; half < 2; ++half) {
        int const key = base + half * 8 + lane % 4 * 2;
        if (key < columns) use(key, half);
      }
  }

  __device__ void operator()(Tile tile, Context&) const {
    constexpr unsigned all = 0xffffffffu;
    int const row = tile.at[1] * k_softmax_rows + static_cast<int>(threadIdx.x) / 32;
    if (row >= rows) return;  // a whole warp
    int const head = tile.at[2] % heads, sequence = tile.at[2] / heads;
    auto const at = (static_cast<long long>(tile.at[2]) * rows + row) * columns;
    auto const pair = [&](int key) {
      return __bfloat1622float2(*reinterpret_cast<__nv_bfloat162 const*>(scores + at + key));
    };
    float largest = -INFINITY;
    for_pairs([&](int key, int) {
      auto const two = pair(key);
      largest = fmaxf(largest, fmaxf(two.x, two.y));
    });
    for (int lane = 16; lane > 0; lane /= 2) largest = fmaxf(largest, __shfl_xor_sync(all, largest, lane));
    auto const weight = [&](float score) { return exp2f(scale * (score - largest)); };
    float sum = 0;
    for_pairs([&](int key, int) {
      auto const two = pair(key);
      sum += weight(two.x) + weight(two.y);
    });
    for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(all, sum, lane);
    float const factor = kept_scale / sum;
    kernels::RandomWords words;
    for_pairs([&](int key, int half) {
      using attention_sm90::drop_number;
      if (half == 0 && drop_below > 0)
        words = attention_sm90::drop_words(seed, sequence, head, row / 16 * 8 + row % 8,
                                           key / 16 * 4 + key % 8 / 2);
      auto const two = pair(key);
      int const word = row / 8 % 2 * 2 + half;
      bool const first = drop_below == 0 || drop_number(words, word, 0) >= drop_below,
                 second = drop_below == 0 || drop_number(words, word, 1) >= drop_below;
      *reinterpret_cast<__nv_bfloat162*>(weights + at + key) = __floats2bfloat162_rn(
          first ? weight(two.x) * factor : 0.0f, second ? weight(two.y) * factor : 0.0f);
    });
  }
};

}  // namespace tessera::unfused_attention
