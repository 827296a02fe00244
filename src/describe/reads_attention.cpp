// SPDX-License-Identifier: Apache-2.0
// Attention in one kernel. Its grid: heads, and the blocks of queries of one sequence after the other.
#include "describe/attention_sight.hpp"
#include "describe/reads.hpp"

namespace tessera {
namespace {

std::int64_t ceil_of(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// 0 below `begin`, 1 from it on.
Linear from_on(AffineSpace const& space, Linear const& at, std::int64_t begin) {
  return space.minimum(space.maximum(at - begin + 1, 0), 1);
}

/// Where a tile's queries are.
struct Place {
  AffineSpace space;
  Linear first_row;  ///< of its sequence
  Linear row;        ///< its own first
  Linear rows;       ///< of its sequence
};

/// Of unequal sequences, whose blocks lie one behind the other: what each adds to those before it.
Place place_among(std::vector<std::int64_t> const& prompts, AffineSpace const& space, std::int64_t tile) {
  auto const block = space.dimension(1);
  Linear first_row, first_block, rows = prompts.front();
  std::int64_t blocks = 0;
  for (std::size_t s = 1; s < prompts.size(); ++s) {
    auto const before = ceil_of(prompts[s - 1], tile);
    blocks += before;
    auto const behind = from_on(space, block, blocks);
    first_row = first_row + behind * prompts[s - 1];
    first_block = first_block + behind * before;
    rows = rows + behind * (prompts[s] - prompts[s - 1]);
  }
  return {space, first_row, first_row + (block - first_block) * tile, rows};
}

Place place_of(Edge const& edge) {
  auto const& shape = edge.attention;
  auto const tile = edge.consumer.tile_rows;
  AffineSpace const space(edge.consumer.extents());
  if (auto const& prompts = edge.consumer.prompts; !prompts.empty()) return place_among(prompts, space, tile);
  auto const blocks = ceil_of(shape.tokens, tile);
  auto const block = space.dimension(1);
  auto const first_row = space.floor_div(block, blocks) * shape.tokens;
  return {space, first_row, first_row + space.modulo(block, blocks) * tile, shape.tokens};
}

TileRange head_columns(Place const& place, Linear const& head, Edge const& edge) {
  auto const column = head * edge.attention.head_dim;
  return place.space.covering({column}, {column + edge.attention.head_dim}, edge.producer.tile_columns);
}

/// Is all of it one tile?
bool is_whole(Tiling const& tiling) { return tiling.grid_x() == 1 && tiling.grid_y() == 1; }

/// All rows of some heads.
std::vector<Access> read_all_rows(Edge const& edge, std::int64_t first_head, std::int64_t heads) {
  AffineSpace const space(edge.consumer.extents());
  auto const size = edge.attention.head_dim;
  Linear const begin = first_head * size, end = (first_head + heads) * size;
  return {{{space.covering({begin}, {end}, edge.producer.tile_columns),
            {TileExpr::constant(0), TileExpr::constant(edge.producer.grid_y()), false}}}};
}

/// `first_head`: of the K or V columns.
std::vector<Access> read_keys(Edge const& edge, std::int64_t first_head) {
  auto const& shape = edge.attention;
  if (is_whole(edge.consumer)) return read_all_rows(edge, first_head, shape.kv_heads);
  auto const place = place_of(edge);
  auto const head = place.space.floor_div(place.space.dimension(0), shape.query_heads / shape.kv_heads);
  auto const sequence_end = place.first_row + place.rows;
  // A query's own row is in any range, so that none is empty.
  std::vector<Linear> lower{place.first_row}, upper{sequence_end};
  if (shape.window > 0) lower.push_back(place.row + (1 - shape.window));
  if (is_causal(shape)) upper.push_back(place.row + edge.consumer.tile_rows);
  return {{{head_columns(place, head + first_head, edge),
            place.space.covering(lower, upper, edge.producer.tile_rows, true)}}};
}

}  // namespace

std::vector<Access> read_fused_queries(Edge const& edge) {
  if (is_whole(edge.consumer)) return read_all_rows(edge, 0, edge.attention.query_heads);
  auto const place = place_of(edge);
  return {
      {{head_columns(place, place.space.dimension(0), edge),
        place.space.covering({place.row}, {place.row + edge.consumer.tile_rows, place.first_row + place.rows},
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
  if (!producer.prompts.empty()) {
    auto const tile = [&](Linear const& row) {
      Linear first_row, first_block;
      std::int64_t rows = 0;
      for (std::size_t s = 0; s + 1 < producer.prompts.size(); ++s) {
        rows += producer.prompts[s];
        auto const behind = from_on(space, row, rows);
        first_row = first_row + behind * producer.prompts[s];
        first_block = first_block + behind * ceil_of(producer.prompts[s], producer.tile_rows);
      }
      return space.floor_div(row - first_row, producer.tile_rows) + first_block;
    };
    return {to_expr(tile(begin)), to_expr(tile(space.minimum(end, producer.rows) - 1) + 1), false};
  }
  auto const each = producer.sequence_rows;
  auto const blocks = (each + producer.tile_rows - 1) / producer.tile_rows;
  auto const tile = [&](Linear const& row) {
    return space.floor_div(row, each) * blocks + space.floor_div(space.modulo(row, each), producer.tile_rows);
  };
  return {to_expr(tile(begin)), to_expr(tile(space.minimum(end, producer.rows) - 1) + 1), false};
}

}  // namespace tessera
