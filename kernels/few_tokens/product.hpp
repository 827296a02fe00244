// SPDX-License-Identifier: Apache-2.0
// A product of a matrix with few columns: what a launch tells the operation about one stage.
#pragma once

#include <tessera/sync/data_token.cuh>

#include "kernels/few_tokens/tile_times.hpp"
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

/// Most k-blocks of words (token_words.cuh) to a slot of activations, for so many tokens.
TESSERA_HOST_DEVICE constexpr int most_word_depth(int tokens) { return 16 / tokens; }

enum class Activation { none, gelu, swiglu };

constexpr int k_most_copies = 4;
constexpr int k_most_rows = 16 * 8;  ///< of weights in a tile

/// Warps that multiply. A row group has every n-th tile of 16 rows, and its warps share the depth: so a warp
/// has 32 sums at most, and 64 for 64 columns.
constexpr int k_warps = 8;
constexpr int k_most_tiles = k_most_rows / 16;
TESSERA_HOST_DEVICE constexpr int row_groups_of(int columns) { return columns < 64 ? columns / 8 : 4; }
TESSERA_HOST_DEVICE constexpr int depth_groups_of(int columns) { return k_warps / row_groups_of(columns); }

/// Their sums meet in shared memory: [depth group][token][row]. Floats from token to token, so that lanes of
/// a warp store to 32 banks.
TESSERA_HOST_DEVICE constexpr int exchange_pitch(int row_tiles) { return 16 * row_tiles + 4; }

/// y[token][feature] = activation(scale[token] * sum over k of weights[feature][k] * x[token][k])
///                     + bias[feature] + residual, fp32 sums. With GELU a bias is within: gelu(sum + bias).
/// SwiGLU: gate f in row 2 * f, up f in row 2 * f + 1. RMSNorm: scale[token] = 1 / sqrt(mean over k of
/// x[token][k]^2 + norm_epsilon); its gains are multiplied into the columns of the weights beforehand. A tile
/// is a range of features, as even as can be. Copies: iteration n uses copy n modulo their number.
struct Product {
  void const* weight_maps = nullptr;  ///< CUtensorMaps of all copies, in device memory
  void const* input_maps = nullptr;   ///< or, where warps that compute fetch it, the matrix itself
  void* output[k_most_copies] = {};   ///< [tokens][features], bf16 or fp16; null: nobody reads it
  /// The same as words that carry the iteration (token_words.cuh); null: semaphores say when it is there.
  unsigned* output_words[k_most_copies] = {};
  unsigned const* input_words[k_most_copies] = {};
  /// [tokens][features], added last; null: nothing is. Waits are for the input alone, device scope: who
  /// writes the residual must be complete before any of the input is, as in a loop whose input was made from
  /// it.
  void const* residual[k_most_copies] = {};
  /// [tokens][features] in fp32, in place: results are added to it, and what is stored elsewhere is the sum.
  /// Null: there is none. Of who else writes it the same holds as of the residual.
  float* stream = nullptr;
  /// The same stream as words of a value and a token of who wrote it, for stages whose inputs come as
  /// words: these order nothing else. Then `stream` is what the first iteration of a launch finds. Null:
  /// there are none.
  Packet<1>* stream_words = nullptr;
  TileTimes* times = nullptr;  ///< [iteration of a launch][tile]; null: nobody measures
  int weight_copies = 1;
  int input_copies = 1;
  int output_copies = 1;
  int residual_copies = 1;
  short input_distance = 0;  ///< iterations that the input is older
  short residual_distance = 0;
  float norm_epsilon = 0;  ///< above 0: of RMSNorm
  int tokens = 0;
  int features = 0;
  short rows_per_feature = 1;
  /// Of the two stages of a body that write the stream of residuals in turns: 0 or 1, in their order.
  short stream_turn = 0;
  int depth = 0;  ///< elements
  int tiles = 1;
  /// 2: two blocks of a cluster compute tiles 2n and 2n + 1 at a time. Each multiplies half of the depth for
  /// the rows of both, and sends the other what it came to for the other's (depth_pair.cuh). 1: no such pair.
  short depth_parts = 1;
  short whole_input =
      0;                ///< 1: every tile of the stage that writes the input writes all of it, of some tokens
  int tile_rows = 0;    ///< of weights that a tile's results come from: the largest tile's
  int box_rows = 0;     ///< that a block multiplies: of both tiles of a pair
  int stage_depth = 4;  ///< k-blocks to a slot of weights; even where input comes as words
  int late_warps = 1;   ///< that load activations in turns, each behind the tiles that write its slot
  int late_each = 1;    ///< slots of weights to one of activations: each turn of a ring costs
  int producer_tiles = 0;  ///< into which the stage that writes the input cuts `depth`; 0: none writes it
  Activation activation = Activation::none;
  /// [copy][features], as many copies as weights have: of a product without activation, or with GELU and
  /// nothing else that is added. Kernels with biases alone read it. Null: there is none.
  float const* bias = nullptr;

  /// k-blocks that a block multiplies, at most, and the first of them.
  TESSERA_HOST_DEVICE constexpr int depth_blocks() const {
    return (depth / depth_block + depth_parts - 1) / depth_parts;
  }
  TESSERA_HOST_DEVICE constexpr int first_block(int tile) const {
    return depth_parts == 1 ? 0 : tile % 2 * depth_blocks();
  }
  TESSERA_HOST_DEVICE constexpr int slots() const { return (depth_blocks() + stage_depth - 1) / stage_depth; }
  /// Of a slot of weights: one load, and no row more than that has.
  TESSERA_HOST_DEVICE constexpr int slot_bytes() const { return 2 * depth_block * box_rows * stage_depth; }
  /// k-blocks to a slot of activations, and such slots.
  TESSERA_HOST_DEVICE constexpr int late_depth() const { return stage_depth * late_each; }
  TESSERA_HOST_DEVICE constexpr int late_slots() const { return (slots() + late_each - 1) / late_each; }
  /// Features of a tile, and those that its block multiplies for.
  TESSERA_HOST_DEVICE constexpr Range range(int tile) const { return part(features, tiles, tile); }
  TESSERA_HOST_DEVICE constexpr Range multiplied(int tile) const {
    return depth_parts == 1 ? range(tile) : Range{range(tile / 2 * 2).begin, range(tile / 2 * 2 + 1).end};
  }
  /// Of 16 rows.
  TESSERA_HOST_DEVICE constexpr int row_tiles() const { return (box_rows + 15) / 16; }
  /// Floats from token to token of what the other block of a pair sends: a tile's rows and a sum of squares.
  TESSERA_HOST_DEVICE constexpr int sent_pitch() const { return tile_rows + 1; }
  /// Of all that.
  TESSERA_HOST_DEVICE constexpr int sent_bytes() const {
    return depth_parts == 1 ? 0 : tokens * sent_pitch() * static_cast<int>(sizeof(float));
  }
  /// Of activations that the warps that compute fetch themselves (direct_input.cuh): for whole slots of
  /// weights.
  TESSERA_HOST_DEVICE constexpr int input_bytes() const {
    return 2 * depth_block * tokens * slots() * stage_depth;
  }
  /// Of the sums of a block's warps.
  TESSERA_HOST_DEVICE constexpr int exchange_bytes(int columns) const {
    return depth_groups_of(columns) * tokens * exchange_pitch(row_tiles()) * static_cast<int>(sizeof(float));
  }
  /// Where activations of input_bytes() stand in the scratch: behind those sums, in lines of 128 bytes.
  TESSERA_HOST_DEVICE constexpr int input_at(int columns) const {
    return (exchange_bytes(columns) + 127) / 128 * 128;
  }
};

/// Kernels whose products may share their depth in pairs of blocks. With 8 columns there is little to gain,
/// and no register to spare.
TESSERA_HOST_DEVICE constexpr bool takes_pairs(int columns) { return columns > 8; }

/// How many tiles of `parts` hold the first `end` of `total` elements, by part()'s cut. Precondition:
/// total * parts < 2^31.
TESSERA_HOST_DEVICE constexpr int parts_of_first(int total, int parts, int end) {
  auto const upto = static_cast<unsigned>(end) * static_cast<unsigned>(parts);
  return end <= 0 ? 0 : static_cast<int>((upto - 1) / static_cast<unsigned>(total)) + 1;
}

}  // namespace tessera::few_tokens
