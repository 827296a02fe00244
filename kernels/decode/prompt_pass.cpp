// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/prompt_pass.hpp"

#include <algorithm>

#include "kernels/decode/prompt.hpp"

namespace tessera::decode {
namespace {

constexpr int k_usual_rows = 2048;

}  // namespace

int pass_rows_of(Options const& o) {
  if (o.prompt_rows > k_most_prompt_rows) return rows_of_products(o.prompt_rows);
  auto const most = static_cast<long long>(o.capacity) * o.batch;
  if (o.prompt_rows > 0 || most < k_least_pass_tokens) return 0;
  return rows_of_products(static_cast<int>(std::min<long long>(k_usual_rows, most)));
}

int pass_keys_of(Options const& o) { return std::max(pass_rows_of(o), o.capacity); }

PassBuffers pass_places(Pieces& pieces, Model const& m, Options const& o) {
  PassBuffers b;
  int const rows = pass_rows_of(o);
  if (rows == 0) return b;
  b.rows.stream = pieces.take<float>(4 * times(rows, m.hidden));
  b.rows.normed = pieces.take(2 * times(rows, m.hidden));
  b.rows.qkv = pieces.take(2 * times(rows, m.qkv_features()));
  b.rows.attended = pieces.take(2 * times(rows, m.attended()));
  if (!m.gelu) b.rows.gate_up = pieces.take(4 * times(rows, m.intermediate));
  b.rows.h = pieces.take(2 * times(rows, m.intermediate));
  for (auto* const of : {&b.keys, &b.values})
    *of = pieces.take(2 * times(pass_keys_of(o), m.kv_heads * m.head_size));
  b.rows.workspace = pieces.take(cublaslt::workspace_bytes);
  b.places.positions = pieces.take<int>(4 * times(rows, 1));
  b.places.sequences = pieces.take<int>(4 * times(rows, 1));
  b.places.query_offsets = pieces.take<int>(4 * times(k_most_batch + 1, 1));
  b.places.key_offsets = pieces.take<int>(4 * times(k_most_batch + 1, 1));
  return b;
}

std::size_t pass_bytes(Model const& m, Options const& o) {
  Pieces none;
  pass_places(none, m, o);
  return none.used();
}

Expected<PromptPass> PromptPass::make(Model const& model, PackedWeights const& weights,
                                      Options const& options, PassBuffers const& own,
                                      PassSurroundings const& around, PassAttention attention,
                                      cudaStream_t stream) {
  PromptPass result;
  result.model_ = model;
  result.own_ = own, result.around_ = around, result.attention_ = std::move(attention);
  result.end_ = around.end;
  result.end_.stream = own.rows.stream, result.end_.x = own.rows.normed;
  result.rows_ = pass_rows_of(options), result.keys_ = pass_keys_of(options);
  bool const is_timed = options.time_products && result.rows_ >= k_least_timed_rows;
  auto const timed = is_timed ? std::optional(ProductsOf::library) : std::nullopt;
  auto layers = OperatorLaunches::make(model, weights, own.rows, result.rows_, timed, {}, stream);
  if (!layers) return tl::make_unexpected(layers.error());
  result.layers_ = std::move(*layers);
  return result;
}

Expected<void> PromptPass::attend(cudaStream_t stream, PassTable const& table, int layer) const {
  auto const& m = model_;
  auto const heads = layers_.heads(layer, table.rows, around_.turns);
  auto const cache = around_.of_layer(layer);
  if (auto ok = check_call(take_heads(heads, own_.places, cache, stream), "turning queries and keys"); !ok)
    return ok;

  attention_sm90::Problem problem;
  problem.sequences = table.count;
  problem.heads = m.heads, problem.key_heads = m.kv_heads, problem.head_size = m.head_size;
  problem.query_rows = table.rows;
  for (int r = 0; r < table.count; ++r)
    problem.longest_queries = std::max(problem.longest_queries, table.runs[r].tokens);
  problem.query_offsets = own_.places.query_offsets;
  problem.causal = true;
  problem.window = layer >= m.window_from ? m.window : 0;
  int const of_head = (m.group() + 2) * m.head_size;  // elements of a key head in a row of qkv
  problem.q = {m.qkv_features(), m.head_size, of_head};
  void const *keys = bytes_behind(own_.rows.qkv, times(m.group(), m.head_size)),
             *values = bytes_behind(own_.rows.qkv, times(m.group() + 1, m.head_size));
  if (table.behind) {
    if (auto ok =
            check_call(bring_keys(table, cache, m.kv_heads, m.head_size, own_.keys, own_.values, stream),
                       "bringing cached keys");
        !ok)
      return ok;
    keys = own_.keys, values = own_.values;
    problem.key_rows = table.key_rows();
    problem.key_offsets = own_.places.key_offsets;
  } else {
    problem.key_rows = table.rows;
    problem.key_offsets = own_.places.query_offsets;
    problem.k = problem.v = {m.qkv_features(), of_head, 0};
  }
  return attention_(problem, own_.rows.qkv, keys, values, own_.rows.attended, stream);
}

Expected<void> PromptPass::read_table(cudaStream_t stream, PassTable const& table) const {
  if (auto ok = check_call(begin_pass(table, rows_of_products(table.rows), end_, own_.places, stream),
                           "embedding prompts");
      !ok)
    return ok;
  int const rows = rows_of_products(table.rows);
  auto const attention = [&](cudaStream_t in, int layer) { return attend(in, table, layer); };
  for (int number = 0; number < model_.layers; ++number)
    if (auto ok = layers_.layer(stream, number, rows, attention); !ok) return ok;
  return {};
}

Expected<void> PromptPass::read(cudaStream_t stream, std::vector<Positions> const& unread,
                                bool then_head) const {
  for (auto const& table : pass_tables(unread, rows_, keys_)) {
    if (auto ok = read_table(stream, table); !ok) return ok;
    if (!then_head) continue;
    if (auto ok = check_call(end_pass(table, own_.rows.stream,
                                      layers_.end(rows_of_products(table.rows)).shift, around_.end, stream),
                             "ending prompts");
        !ok)
      return ok;
  }
  return {};
}

}  // namespace tessera::decode
