// SPDX-License-Identifier: Apache-2.0
#include "describe/reads.hpp"

namespace tessera {
namespace {

TileRange all_of(std::int64_t extent) { return {TileExpr::constant(0), TileExpr::constant(extent), false}; }

/// The range of one batch coordinate, for producers that have the dimension.
void push_batch(std::vector<TileRange>& ranges, Tiling const& producer, Linear const& begin,
                Linear const& end) {
  if (producer.batch > 1) ranges.push_back({to_expr(begin), to_expr(end), false});
}

}  // namespace

std::vector<std::int64_t> Tiling::extents() const {
  std::vector<std::int64_t> result{grid_x(), grid_y()};
  if (batch > 1) result.push_back(batch);
  return result;
}

std::vector<Access> read_rows(Edge const& edge) {
  AffineSpace const space(edge.consumer.extents());
  auto const row = space.dimension(1) * edge.consumer.tile_rows;
  Access access;
  access.ranges.push_back(all_of(edge.producer.grid_x()));
  if (edge.producer.row_tiles > 0)  // the same groups, cut alike: tile() has seen to it
    access.ranges.push_back({to_expr(space.dimension(1)), to_expr(space.dimension(1) + 1), false});
  else if (edge.producer.sequence_rows > 0 || !edge.producer.prompts.empty())
    access.ranges.push_back(rows_of_sequences(space, row, row + edge.consumer.tile_rows, edge.producer));
  else
    access.ranges.push_back(
        space.covering({row}, {row + edge.consumer.tile_rows, edge.producer.rows}, edge.producer.tile_rows));
  push_batch(access.ranges, edge.producer, space.dimension(2), space.dimension(2) + 1);
  return {access};
}

std::vector<Access> read_same_tile(Edge const& edge) {
  auto accesses = read_rows(edge);
  AffineSpace const space(edge.consumer.extents());
  auto const column = space.dimension(0) * edge.consumer.tile_columns;
  accesses[0].ranges[0] = space.covering(
      {column}, {column + edge.consumer.tile_columns, edge.producer.columns}, edge.producer.tile_columns);
  return accesses;
}

// The fused QKV output has one row per token of every sequence, and columns [Q heads][K heads][V heads].
// Batch entry z of the attention operators is (sequence, query head), the head fastest.

std::vector<Access> read_query_heads(Edge const& edge) {
  auto const& shape = edge.attention;
  AffineSpace const space(edge.consumer.extents());
  auto const sequence = space.floor_div(space.dimension(2), shape.query_heads);
  auto const head = space.modulo(space.dimension(2), shape.query_heads);
  auto const first_row = sequence * shape.tokens;
  auto const row = first_row + space.dimension(1) * edge.consumer.tile_rows;
  auto const column = head * shape.head_dim;
  return {{{space.covering({column}, {column + shape.head_dim}, edge.producer.tile_columns),
            space.covering({row}, {row + edge.consumer.tile_rows, first_row + shape.tokens},
                           edge.producer.tile_rows)}}};
}

std::vector<Access> read_key_heads(Edge const& edge) {
  auto const& shape = edge.attention;
  AffineSpace const space(edge.consumer.extents());
  auto const sequence = space.floor_div(space.dimension(2), shape.query_heads);
  auto const head = space.modulo(space.dimension(2), shape.query_heads);
  auto const kv_head = space.floor_div(head, shape.query_heads / shape.kv_heads);
  auto const column = (kv_head + shape.query_heads) * shape.head_dim;
  // Score column c is key c of the sequence; the first `cached` keys have no producer.
  auto const first_row = sequence * shape.tokens;
  auto const row = first_row + space.dimension(0) * edge.consumer.tile_columns - shape.cached;
  return {{{space.covering({column}, {column + shape.head_dim}, edge.producer.tile_columns),
            space.covering({row, first_row}, {row + edge.consumer.tile_columns, first_row + shape.tokens},
                           edge.producer.tile_rows)}}};
}

std::vector<Access> read_value_heads(Edge const& edge) {
  auto const& shape = edge.attention;
  AffineSpace const space(edge.consumer.extents());
  auto const sequence = space.floor_div(space.dimension(2), shape.query_heads);
  auto const head = space.modulo(space.dimension(2), shape.query_heads);
  auto const kv_head = space.floor_div(head, shape.query_heads / shape.kv_heads);
  auto const first_column = (kv_head + (shape.query_heads + shape.kv_heads)) * shape.head_dim;
  auto const column = first_column + space.dimension(0) * edge.consumer.tile_columns;
  auto const first_row = sequence * shape.tokens;
  return {{{space.covering({column}, {column + edge.consumer.tile_columns, first_column + shape.head_dim},
                           edge.producer.tile_columns),
            space.covering({first_row}, {first_row + shape.tokens}, edge.producer.tile_rows)}}};
}

std::vector<Access> read_heads_to_columns(Edge const& edge) {
  auto const& shape = edge.attention;
  auto const tokens = shape.tokens;
  auto const tile_rows = edge.consumer.tile_rows;
  AffineSpace const space(edge.consumer.extents());
  auto const row = space.dimension(1) * tile_rows;
  auto const row_in_first = space.modulo(row, tokens);
  auto const columns = all_of(edge.producer.grid_x());

  // Rows [row, row + tile_rows) belong to sequences first..last. A box per case: the part of the first
  // sequence, the part of the last, and whole sequences between them.
  auto const first = space.floor_div(row, tokens);
  auto const last = space.minimum(space.floor_div(row + (tile_rows - 1), tokens), shape.sequences - 1);
  auto const in_sequence = [&](Linear const& sequence, Linear const& start) {
    Access access{
        {columns, space.covering({start, 0}, {start + tile_rows, tokens}, edge.producer.tile_rows, true)}};
    push_batch(access.ranges, edge.producer, sequence * shape.query_heads,
               (sequence + 1) * shape.query_heads);
    return access;
  };
  auto const whole_sequences = [&](Linear const& begin, Linear const& end) {
    Access access{{columns, all_of(edge.producer.grid_y())}};
    push_batch(access.ranges, edge.producer, begin * shape.query_heads, end * shape.query_heads);
    return access;
  };
  if (tile_rows % tokens == 0) return {whole_sequences(first, last + 1)};
  if (tokens % tile_rows == 0 || shape.sequences == 1) return {in_sequence(first, row_in_first)};
  std::vector<Access> accesses{in_sequence(first, row_in_first), in_sequence(last, row - last * tokens)};
  if (tile_rows > tokens + 1) accesses.push_back(whole_sequences(first + 1, last));
  return accesses;
}

}  // namespace tessera
