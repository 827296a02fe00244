// SPDX-License-Identifier: Apache-2.0
// A product of a matrix with few columns: what a launch tells the operation about one stage.
#pragma once

#include <tessera/sync/config.cuh>

#include "kernels/skinny_mlp_sm90/cut.hpp"

namespace tessera::few_tokens {

using skinny_sm90::depth_block;
using skinny_sm90::Range;

/// Part `i` of `parts` of `total`, as even as can be. In 32 bits: a 64-bit division takes a quarter of a
/// microsecond, on the way from one stage to the next. Precondition: total * parts < 2^31.
TESSERA_HOST_DEVICE constexpr Range part(int total, int parts, int i) {
  auto const all = static_cast<unsigned>(total), n = static_cast<unsigned>(parts),
             at = static_cast<unsigned>(i);
  return {static_cast<int>(all * at / n), static_cast<int>(all * (at + 1) / n)};
}

enum class Activation { none, gelu, swiglu };

constexpr int k_most_copies = 4;
constexpr int k_most_rows = 16 * 8;  ///< of weights in a tile

/// Warps that multiply. As many as a tile has 16 rows share the rows; where that leaves warps, they share the
/// depth, and their sums meet in shared memory.
constexpr int k_warps = 8;
/// Bytes for that, for so many columns.
TESSERA_HOST_DEVICE constexpr int exchange_bytes(int columns) {
  return (k_warps - 1) * 16 * columns * static_cast<int>(sizeof(float));
}

/// y[token][feature] = activation(sum over k of weights[feature][k] * x[token][k]), fp32 sums. SwiGLU: gate f
/// in row 2 * f, up f in row 2 * f + 1. A tile is a range of features, as even as can be.
/// Copies: iteration n uses copy n modulo their number.
struct Product {
  void const* weight_maps = nullptr;  ///< CUtensorMaps of all copies, in device memory
  void const* input_maps = nullptr;
  void* output[k_most_copies] = {};  ///< [tokens][features], bf16 or fp16; null: nobody reads it
  /// The same as words that carry the iteration (token_words.cuh); null: semaphores say when it is there.
  unsigned* output_words[k_most_copies] = {};
  unsigned const* input_words[k_most_copies] = {};
  int weight_copies = 1;
  int input_copies = 1;
  int input_distance = 0;  ///< iterations that the input is older
  int output_copies = 1;
  int tokens = 0;
  int features = 0;
  int rows_per_feature = 1;
  int depth = 0;  ///< elements
  int tiles = 1;
  int box_rows = 0;        ///< of a load of weights: the largest tile's
  int slot_rows = 0;       ///< rounded up to 8
  int stage_depth = 4;     ///< k-blocks to a slot of weights, and to one of activations; even
  int producer_tiles = 0;  ///< into which the stage that writes the input cuts `depth`; 0: none writes it
  Activation activation = Activation::none;
  int whole_input = 0;  ///< 1: every tile of that stage writes all of `depth`, of some tokens

  TESSERA_HOST_DEVICE constexpr int depth_blocks() const { return (depth + depth_block - 1) / depth_block; }
  TESSERA_HOST_DEVICE constexpr int slots() const { return (depth_blocks() + stage_depth - 1) / stage_depth; }
  TESSERA_HOST_DEVICE constexpr Range range(int tile) const { return part(features, tiles, tile); }
  /// Warps that share a tile's rows, and groups of such that share the depth.
  TESSERA_HOST_DEVICE constexpr int row_warps() const { return (box_rows + 15) / 16; }
  TESSERA_HOST_DEVICE constexpr int depth_groups() const { return k_warps / row_warps(); }
};

/// How many tiles of `parts` hold the first `end` of `total` elements, by part()'s cut. Precondition:
/// total * parts < 2^31.
TESSERA_HOST_DEVICE constexpr int parts_of_first(int total, int parts, int end) {
  auto const upto = static_cast<unsigned>(end) * static_cast<unsigned>(parts);
  return end <= 0 ? 0 : static_cast<int>((upto - 1) / static_cast<unsigned>(total)) + 1;
}

}  // namespace tessera::few_tokens
