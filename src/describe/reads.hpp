// SPDX-License-Identifier: Apache-2.0
// Which producer tiles does a tile of a consumer read? One function per family of read patterns.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "describe/affine.hpp"
#include "tessera/describe/workload.hpp"

namespace tessera {

/// An operator's output, or the part of it that an operator computes, cut into tiles. Dimensions of the
/// stage's grid: x (columns), y (rows), and z (batch entries) if there is more than one.
struct Tiling {
  std::int64_t rows = 1, columns = 1, batch = 1;  ///< elements, as stored
  std::int64_t tile_rows = 1, tile_columns = 1;   ///< elements of one tile, as stored
  std::int64_t row_tiles = 0;  ///< where rows are cut in groups, none of whose tiles has rows of two; else 0
  /// Where rows are those of sequences that tiles do not divide, and no tile has rows of two: of each; else
  /// 0.
  std::int64_t sequence_rows = 0;
  std::vector<std::int64_t> prompts = {};  ///< likewise, where they are unequal: rows of each; else empty

  auto operator<=>(Tiling const&) const = default;

  std::int64_t grid_x() const { return (columns + tile_columns - 1) / tile_columns; }
  std::int64_t grid_y() const {
    if (row_tiles > 0) return row_tiles;
    if (!prompts.empty()) {
      std::int64_t blocks = 0;
      for (auto const each : prompts) blocks += (each + tile_rows - 1) / tile_rows;
      return blocks;
    }
    if (sequence_rows > 0) return rows / sequence_rows * ((sequence_rows + tile_rows - 1) / tile_rows);
    return (rows + tile_rows - 1) / tile_rows;
  }
  std::vector<std::int64_t> extents() const;
};

/// Producer and consumer of one dependence. Precondition: their sizes fit the pattern (tile() checks).
struct Edge {
  Tiling consumer;
  Tiling producer;
  AttentionShape attention;
  ConvShape conv;
};

std::vector<Access> read_rows(Edge const& edge);              ///< rows, same_batch_rows, swiglu_pair
std::vector<Access> read_same_tile(Edge const& edge);         ///< same_tile
std::vector<Access> read_query_heads(Edge const& edge);       ///< query_heads
std::vector<Access> read_key_heads(Edge const& edge);         ///< key_heads
std::vector<Access> read_value_heads(Edge const& edge);       ///< value_heads
std::vector<Access> read_heads_to_columns(Edge const& edge);  ///< heads_to_columns
std::vector<Access> read_conv_halo(Edge const& edge);         ///< conv_halo
// The first three patterns of heads by an attention in one kernel.
std::vector<Access> read_fused_queries(Edge const& edge);
std::vector<Access> read_fused_keys(Edge const& edge);
std::vector<Access> read_fused_values(Edge const& edge);

/// Row tiles that hold rows [begin, end) of a producer whose tiles keep sequences apart. Precondition: begin
/// < rows.
TileRange rows_of_sequences(AffineSpace const& space, Linear const& begin, Linear const& end,
                            Tiling const& producer);

}  // namespace tessera
