// SPDX-License-Identifier: Apache-2.0
// Attention in one kernel. Its grid: heads, and the blocks of queries of one sequence after the other.
#include "describe/attention_sight.hpp"
#include "describe/reads.hpp"

namespace tessera {
namespace {

/// Where a tile's queries are.
struct Place {
  AffineSpace space;
  Linear first_row;  ///< of its sequence
  Linear row;        ///< its own first
};

Place place_of(Edge const& edge) {
  auto const& shape = edge.attention;
  auto const tile = edge.consumer.tile_rows;
  auto const blocks = (shape.tokens + tile - 1) / tile;
  AffineSpace const space(edge.consumer.extents());
  auto const block = space.dimension(1);
  auto const first_row = space.floor_div(block, blocks) * shape.tokens;
  return {space, first_row, first_row + space.modulo(block, blocks) * tile};
}

TileRange head_columns(Place const& place, Linear const& head, Edge const& edge) {
  auto const column = head * edge.attention.head_dim;
  return place.space.covering({column}, {column + edge.attention.head_dim}, edge.producer.tile_columns);
}

/// `first_head`: of the K or V columns.
std::vector<Access> read_keys(Edge const& edge, std::int64_t first_head) {
  auto const& shape = edge.attention;
  auto const place = place_of(edge);
  auto const head = place.space.floor_div(place.space.dimension(0), shape.query_heads / shape.kv_heads);
  auto const sequence_end = place.first_row + shape.tokens;
  // A query's own row is in any range, so that none is empty.
  std::vector<Linear> lower{place.first_row}, upper{sequence_end};
  if (shape.window > 0) lower.push_back(place.row + (1 - shape.window));
  if (is_causal(shape)) upper.push_back(place.row + edge.consumer.tile_rows);
  return {{{head_columns(place, head + first_head, edge),
            place.space.covering(lower, upper, edge.producer.tile_rows, true)}}};
}

}  // namespace

std::vector<Access> read_fused_queries(Edge const& edge) {
  auto const place = place_of(edge);
  return {{{head_columns(place, place.space.dimension(0), edge),
            place.space.covering(
                {place.row}, {place.row + edge.consumer.tile_rows, place.first_row + edge.attention.tokens},
                edge.producer.tile_rows, true)}}};
}

std::vector<Access> read_fused_keys(Edge const& edge) { return read_keys(edge, edge.attention.query_heads); }

std::vector<Access> read_fused_values(Edge const& edge) {
  return read_keys(edge, edge.attention.query_heads + edge.attention.kv_heads);
}

TileRange rows_of_sequences(AffineSpace const& space, Linear const& begin, Linear const& end,
                            Tiling const& producer) {
  // Tiles are numbered as their rows are, so that those of an interval are from its first row's to its last
  // one's.
  auto const each = producer.sequence_rows;
  auto const blocks = (each + producer.tile_rows - 1) / producer.tile_rows;
  auto const tile = [&](Linear const& row) {
    return space.floor_div(row, each) * blocks + space.floor_div(space.modulo(row, each), producer.tile_rows);
  };
  return {to_expr(tile(begin)), to_expr(tile(space.minimum(end, producer.rows) - 1) + 1), false};
}

}  // namespace tessera
