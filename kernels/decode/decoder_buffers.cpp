// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/decoder_buffers.hpp"

#include <algorithm>

#include "kernels/decode/device_memory.hpp"

namespace tessera::decode {

CacheShape cache_of(Model const& m, Options const& o) {
  if (o.paged.positions > 0) return {m.layers, o.paged.pages, m.kv_heads, o.paged.positions, m.head_size};
  return {m.layers, o.batch, m.kv_heads, o.capacity, m.head_size};
}

int items_of(Model const& m, Options const& o, int blocks) {
  int const rows = prompt_rows_of(o);
  return rows > 1 ? prompt_items(m, rows, o.batch, blocks) : 0;
}

namespace {

/// Rows of these steps are those that persistent ones would have.
LaunchedBuffers launched_places(Pieces& pieces, Model const& m, Options const& o, Buffers const& b) {
  LaunchedBuffers result;
  auto& rows = result.rows;
  rows.stream = b.layer.stream, rows.normed = b.layer.y;
  rows.qkv = b.layer.qkv, rows.attended = b.layer.attended, rows.h = b.layer.h;
  if (by_launches(o) && !m.gelu) rows.gate_up = pieces.take(4 * times(o.batch, m.intermediate));
  if (by_launches(o))
    rows.squares = pieces.take<float>(4 * times(o.batch, m.hidden / skinny_gemm::k_squares_block + 1));
  rows.workspace = pass_rows_of(o) > 0 ? b.pass.rows.workspace : pieces.take(cublaslt::workspace_bytes);
  result.parts = b.parts, result.arrived = b.arrived;
  return result;
}

}  // namespace

Buffers places(Model const& m, Options const& o, Tiles const& tiles, int items, unsigned char* base) {
  Pieces pieces(base);
  Buffers b;
  int const rows = std::max(o.batch, prompt_rows_of(o));
  b.layer.stream = pieces.take<float>(4 * times(rows, m.hidden));
  b.layer.x = pieces.take(2 * times(rows, m.hidden));
  b.layer.y = pieces.take(2 * times(rows, m.hidden));
  b.layer.qkv = pieces.take(2 * times(rows, m.qkv_features()));
  b.layer.attended = pieces.take(2 * times(rows, m.attended()));
  b.layer.h = pieces.take(2 * times(rows, m.intermediate));
  if (takes_words(o.cut, o.batch) && !by_launches(o)) {
    auto const begin = pieces.used();
    auto& w = b.layer.words;
    w.x = pieces.take<unsigned>(4 * times(o.batch, m.hidden));
    w.y = pieces.take<unsigned>(4 * times(o.batch, m.hidden));
    w.attended = pieces.take<unsigned>(4 * times(o.batch, m.attended()));
    w.h = pieces.take<unsigned>(4 * times(o.batch, m.intermediate));
    w.qkv = pieces.take<unsigned>(4 * times(o.batch, m.qkv_features()));
    w.stream = pieces.take<Packet<1>>(8 * times(o.batch, m.hidden));
    w.parts = pieces.take<Packet<1>>(8 * times(tiles.of[k_attention], part_words_of(m.group(), m.head_size)));
    w.bytes = pieces.used() - begin;
  }
  if (items > 0) b.prompts = prompt_places(pieces, m, items);
  b.pass = pass_places(pieces, m, o);
  b.parts = pieces.take<float>(4 * times(tiles.of[k_attention], m.group() * (m.head_size + 2)));
  b.arrived = pieces.take<unsigned>(4 * times(o.batch, m.kv_heads + 1));
  if (head_by_launches(o)) b.launched = launched_places(pieces, m, o, b);
  b.best = pieces.take<unsigned long long>(8 * times(o.batch, 1));
  b.cached = pieces.take<int>(4 * times(o.batch, 1));
  b.known = pieces.take<int>(4 * times(o.batch, 1));
  b.first_cached = pieces.take<int>(4 * times(o.batch, 1));
  b.ended = pieces.take<int>(4 * times(o.batch, 1));
  b.not_finite = pieces.take<int>(4 * times(o.batch, 1));
  b.wrong_tokens = pieces.take<int>(4 * times(o.batch, 1));
  if (o.paged.positions > 0) b.wrong_pages = pieces.take<int>(4 * times(o.batch, 1));
  b.stops = pieces.take<int>(4 * o.stop_tokens.size());
  b.ids = pieces.take<int>(4 * times(o.batch, o.capacity));
  for (std::size_t s = 0; o.keep_times && s < k_stages; ++s)
    b.times[s] =
        pieces.take<few_tokens::TileTimes>(sizeof(few_tokens::TileTimes) * times(m.layers, tiles.of[s]));
  if (o.keep_logits || o.sampling.draws() || head_by_launches(o))
    b.logits = pieces.take<float>(4 * times(o.batch, m.vocabulary));
  b.turns = pieces.take<Turn>(sizeof(Turn) * times(o.capacity, m.head_size / 2));
  b.keys = o.paged.keys, b.values = o.paged.values;
  if (b.keys == nullptr) {
    b.keys = pieces.take(2 * cache_of(m, o).elements());
    b.values = pieces.take(2 * cache_of(m, o).elements());
  }
  b.bytes = pieces.used();
  return b;
}

}  // namespace tessera::decode
