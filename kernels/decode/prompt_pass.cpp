// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/prompt_pass.hpp"

#include <algorithm>

#include "kernels/decode/prompt.hpp"
#include "kernels/norm_rope/norm.hpp"
#include "kernels/swiglu/swiglu.hpp"

namespace tessera::decode {
namespace {

constexpr int k_usual_rows = 2048;

/// Of a vector for each layer, `size` elements each; null where there is none.
float const* of_layer(float const* all, int layer, int size) {
  return all == nullptr ? nullptr : all + static_cast<std::ptrdiff_t>(layer) * size;
}

void* bytes_behind(void* at, std::size_t elements) { return static_cast<unsigned char*>(at) + 2 * elements; }

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
  b.stream = pieces.take<float>(4 * times(rows, m.hidden));
  b.normed = pieces.take(2 * times(rows, m.hidden));
  b.qkv = pieces.take(2 * times(rows, m.qkv_features()));
  b.attended = pieces.take(2 * times(rows, m.attended()));
  if (!m.gelu) b.gate_up = pieces.take(4 * times(rows, m.intermediate));
  b.h = pieces.take(2 * times(rows, m.intermediate));
  for (auto* const of : {&b.keys, &b.values})
    *of = pieces.take(2 * times(pass_keys_of(o), m.kv_heads * m.head_size));
  b.workspace = pieces.take(cublaslt::workspace_bytes);
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
  result.model_ = model, result.weights_ = weights;
  result.own_ = own, result.around_ = around, result.attention_ = std::move(attention);
  result.end_ = around.end;
  result.end_.stream = own.stream, result.end_.x = own.normed;
  result.rows_ = pass_rows_of(options), result.keys_ = pass_keys_of(options);
  result.timed_ = options.time_products && result.rows_ >= k_least_timed_rows;
  if (auto ok = result.find_algorithms(stream); !ok) return tl::make_unexpected(ok.error());
  return result;
}

cublaslt::LtProblem PromptPass::problem_of(Product product, int rows) const {
  auto const& m = model_;
  cublaslt::LtProblem p;
  p.rows = rows;
  switch (product) {
    case Product::qkv: p.columns = m.qkv_features(), p.depth = m.hidden; break;
    case Product::out: p.columns = m.hidden, p.depth = m.attended(), p.wide = true; break;
    case Product::gate_up: p.columns = m.mlp_rows() * m.intermediate, p.depth = m.hidden; break;
    case Product::down: p.columns = m.hidden, p.depth = m.intermediate, p.wide = true; break;
  }
  return p;
}

PromptOperands PromptPass::operands_of(Product product, int layer) const {
  auto const& weights = weights_.layers[static_cast<std::size_t>(layer)];
  switch (product) {
    case Product::qkv: return {own_.normed, weights.qkv, own_.qkv, own_.workspace};
    case Product::out: return {own_.attended, weights.out, own_.stream, own_.workspace};
    case Product::gate_up:
      return {own_.normed, weights.gate_up, model_.gelu ? own_.h : own_.gate_up, own_.workspace};
    case Product::down: break;
  }
  return {own_.h, weights.down, own_.stream, own_.workspace};
}

Expected<void> PromptPass::multiply(cudaStream_t stream, Product product, int layer, int rows) const {
  return decode::multiply(problem_of(product, rows), operands_of(product, layer), timed_, stream);
}

Expected<void> PromptPass::find_algorithms(cudaStream_t stream) const {
  for (auto const product : {Product::qkv, Product::out, Product::gate_up, Product::down}) {
    auto const problem = problem_of(product, rows_);
    if (auto const gemm = cublaslt::LtGemm::make(problem); !gemm) return tl::make_unexpected(gemm.error());
    if (!timed_) continue;
    // Numbers of the model's: products of zeros take less power, and are faster than others.
    auto const input = operands_of(product, 0).input;
    auto const bytes = 2 * std::min(times(rows_, problem.depth),
                                    times(model_.mlp_rows() * model_.intermediate, model_.hidden));
    if (auto ok = check_call(cudaMemcpyAsync(const_cast<void*>(input), weights_.layers.front().gate_up, bytes,
                                             cudaMemcpyDeviceToDevice, stream),
                             "numbers to time products with");
        !ok)
      return ok;
    std::vector<PromptOperands> sets;
    for (int l = 0; l < model_.layers; ++l) sets.push_back(operands_of(product, l));
    if (auto ok = time_algorithms(problem, sets, stream); !ok) return ok;
  }
  return {};
}

Expected<void> PromptPass::norm(cudaStream_t stream, int rows, float const* shift) const {
  kernels::Norm norm;
  norm.x = own_.stream, norm.y = own_.normed, norm.shift = shift;
  norm.rows = rows, norm.columns = model_.hidden;
  norm.epsilon = static_cast<float>(model_.norm_epsilon);
  return check_call(kernels::norm(norm, stream), "the norm of a prompt");
}

LayerCache PromptPass::cache_of(int layer) const {
  auto const first = around_.cache.row(layer, 0, 0, 0);
  return {bytes_behind(around_.keys, first), bytes_behind(around_.values, first), around_.pages,
          around_.cache.capacity};
}

Expected<void> PromptPass::attend(cudaStream_t stream, PassTable const& table, int layer) const {
  auto const& m = model_;
  kernels::Heads heads;
  heads.qkv = own_.qkv;
  heads.shifts = of_layer(weights_.qkv_shifts, layer, m.qkv_features());
  if (weights_.head_gains != nullptr) {
    heads.query_gains = bytes_behind(weights_.head_gains, times(2 * layer, m.head_size));
    heads.key_gains = bytes_behind(weights_.head_gains, times(2 * layer + 1, m.head_size));
  }
  heads.norm_epsilon = static_cast<float>(m.norm_epsilon);
  heads.turns = reinterpret_cast<float2 const*>(around_.turns);
  heads.rows = table.rows, heads.key_heads = m.kv_heads, heads.group = m.group(),
  heads.head_size = m.head_size;
  auto const cache = cache_of(layer);
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
  void const *keys = bytes_behind(own_.qkv, times(m.group(), m.head_size)),
             *values = bytes_behind(own_.qkv, times(m.group() + 1, m.head_size));
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
  return attention_(problem, own_.qkv, keys, values, own_.attended, stream);
}

Expected<void> PromptPass::layer(cudaStream_t stream, PassTable const& table, int number) const {
  auto const& m = model_;
  int const rows = rows_of_products(table.rows);
  auto const* const before = number > 0 ? of_layer(weights_.down_shifts, number - 1, m.hidden) : nullptr;
  auto const* const up_shifts = of_layer(weights_.up_shifts, number, m.intermediate);
  Expected<void> result;
  auto const then = [&](auto const& call) {
    if (result) result = call();
  };
  then([&] { return norm(stream, rows, before); });
  then([&] { return multiply(stream, Product::qkv, number, rows); });
  then([&] { return attend(stream, table, number); });
  then([&] { return multiply(stream, Product::out, number, rows); });
  then([&] { return norm(stream, rows, of_layer(weights_.out_shifts, number, m.hidden)); });
  then([&] { return multiply(stream, Product::gate_up, number, rows); });
  then([&] {
    return check_call(
        m.gelu ? add_and_gelu(own_.h, up_shifts, rows, m.intermediate, stream)
               : kernels::swiglu(own_.gate_up, own_.h, rows, m.intermediate, gpu::ElementType::bf16, stream),
        "the activation of a prompt");
  });
  then([&] { return multiply(stream, Product::down, number, rows); });
  return result;
}

Expected<void> PromptPass::read_table(cudaStream_t stream, PassTable const& table) const {
  if (auto ok = check_call(begin_pass(table, rows_of_products(table.rows), end_, own_.places, stream),
                           "embedding prompts");
      !ok)
    return ok;
  for (int number = 0; number < model_.layers; ++number)
    if (auto ok = layer(stream, table, number); !ok) return ok;
  return {};
}

Expected<void> PromptPass::read(cudaStream_t stream, std::vector<Positions> const& unread,
                                bool then_head) const {
  auto const* const shift = of_layer(weights_.down_shifts, model_.layers - 1, model_.hidden);
  for (auto const& table : pass_tables(unread, rows_, keys_)) {
    if (auto ok = read_table(stream, table); !ok) return ok;
    if (!then_head) continue;
    if (auto ok = check_call(end_pass(table, own_.stream, shift, around_.end, stream), "ending prompts"); !ok)
      return ok;
  }
  return {};
}

}  // namespace tessera::decode
