// SPDX-License-Identifier: Apache-2.0
// A tile of rows of weights times all tokens, slot by slot of both rings, by all warps that compute.
#pragma once

#include <tessera/run/roles.cuh>
#include <type_traits>

#include "kernels/few_tokens/product.hpp"
#include "kernels/few_tokens/warp_multiply.cuh"

namespace tessera::few_tokens {

/// For up to N tokens.
template <class Element, int N>
struct SlotMultiply {
  static constexpr int row_groups = row_groups_of(N);
  static constexpr int depth_groups = depth_groups_of(N);
  static constexpr int most_tiles = k_most_tiles / row_groups;
  static constexpr int loads = (N + 15) / 16;  ///< of tokens, for a step

  /// What a warp comes to: tiles of 16 rows by 8 tokens, as in warp_multiply.cuh, and, of token 8 * n + lane
  /// / 4, a part of the sum of its squares.
  struct Sums {
    float tile[most_tiles][N / 8][4];
    float squares[N / 8];
  };

  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int row_group() { return warp() / depth_groups; }
  __device__ static int depth_group() { return warp() % depth_groups; }

  /// `body(n)` with the number of the warp's tiles as a constant: loads of all of them are on their way at
  /// once.
  template <class Body>
  __device__ static void with_tiles(Product const& p, Body const& body) {
    with_tiles<most_tiles>((p.row_tiles() - row_group() + row_groups - 1) / row_groups, body);
  }

  /// The sums over k. A warp takes every depth_groups-th step of 16 elements, and all tiles of its row group:
  /// it loads activations once for all of them. `at_first()`: when the first activations are there.
  /// `Direct`: activations are all at `input` (direct_input.cuh), and `at_first` was called.
  template <int Tiles, bool Direct = false, class Computer, class AtFirst>
  __device__ static void multiply(Product const& p, Computer& computer, Sums& sums, AtFirst const& at_first,
                                  unsigned input = 0) {
    int const slots = p.slots(), depth = p.stage_depth, late_each = p.late_each, tokens = p.tokens;
    int const of_last = p.depth_blocks() - (slots - 1) * depth;  // k-blocks
    int const rows = p.box_rows;
    bool const squares = p.norm_epsilon > 0;
    // Lines of 128 bytes in patterns of 8, in which 16 bytes lie at their number xor the line's. A line of
    // weights is a k-block of a row. Rows behind the last one read what lies there: nobody uses their sums.
    int const step = depth_group() % 4 * 2, first_block = depth_group() / 4;
    int const row = row_group() * 16 + lane() % 16, part = step + lane() / 16;
    // A line of activations is a k-block of a token. Columns that are no token repeat the last one.
    int const chunk = step + lane() / 8 % 2;
    int line[loads];
#pragma unroll
    for (int n = 0; n < loads; ++n)
      line[n] = min(16 * n + lane() % 8 + (N > 8 ? lane() / 16 * 8 : 0), tokens - 1);
    RingPlace late;
    int used = Direct ? 0 : late_each;  // slots of weights that have read this one of activations
#pragma unroll 1
    for (int i = 0; i < slots; ++i) {
      RingPlace const place = computer.next_slot();
      if (!Direct && used == late_each) {
        late = computer.next_late_slot();
        computer.wait_late_slot(late);
        if (i == 0) at_first();
        used = 0;
      }
      computer.wait_slot(place);
      unsigned const weights = computer.slot(place), activations = Direct ? input : computer.late_slot(late);
      int const first_line = used * depth * tokens;
      int const blocks = takes_pairs(N) && i + 1 == slots ? of_last : depth;
      // `flip`: 64 for the step two behind.
      auto const load = [&](int k, unsigned flip, Operands<Tiles>& to) {
#pragma unroll
        for (int n = 0; n < loads; ++n) {
          int const at = first_line + k * tokens + line[n];
          load_matrices(to.tokens[n], (activations + at * 128 + (chunk ^ (at & 7)) * 16) ^ flip);
        }
        int const at = k * rows + row;
        unsigned const first = (weights + at * 128 + (part ^ (at & 7)) * 16) ^ flip;
#pragma unroll
        for (int tile = 0; tile < Tiles; ++tile)
          load_matrices(to.weights[tile], first + tile * (row_groups * 2048));
      };
      auto const add = [&](Operands<Tiles> const& of) {
#pragma unroll
        for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
          for (int n = 0; n < N / 8; ++n)
            multiply_warp<Element>(sums.tile[tile][n], of.weights[tile], of.tokens[n / 2][n % 2 * 2],
                                   of.tokens[n / 2][n % 2 * 2 + 1]);
        if (squares)
#pragma unroll
          for (int n = 0; n < N / 8; ++n)
#pragma unroll
            for (int j = 0; j < 2; ++j)
              sums.squares[n] += squares_of<Element>(of.tokens[n / 2][n % 2 * 2 + j]);
      };
      if constexpr (Tiles > 0) {
        // Two steps at a time: of neighbouring k-blocks, or both of one.
        constexpr int stride = depth_groups < 4 ? 1 : depth_groups / 4, next = depth_groups < 4 ? 0 : stride;
        constexpr unsigned flip = depth_groups < 4 ? 64 : 0;
        int k = first_block;
#pragma unroll 1
        for (; k + next < blocks; k += stride + next) {
          Operands<Tiles> one;
          load(k, 0, one);
          if constexpr (N <= 32) {
            Operands<Tiles> other;
            load(k + next, flip, other);
            add(one);
            add(other);
          } else {  // registers for one
            add(one);
            load(k + next, flip, one);
            add(one);
          }
        }
        if (k < blocks) {
          Operands<Tiles> one;
          load(k, 0, one);
          add(one);
        }
      }
      computer.release_slot(place);
      ++used;
      if (!Direct && (used == late_each || i + 1 == slots)) computer.release_late_slot(late);
    }
  }

 private:
  /// What a step multiplies.
  template <int Tiles>
  struct Operands {
    unsigned weights[Tiles == 0 ? 1 : Tiles][4];
    unsigned tokens[loads][4];
  };

  template <int Most, class Body>
  __device__ static void with_tiles(int tiles, Body const& body) {
    if constexpr (Most > 0) {
      if (tiles < Most) return with_tiles<Most - 1>(tiles, body);
    }
    body(std::integral_constant<int, Most>());
  }
};

}  // namespace tessera::few_tokens
