// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/packed_weights.hpp"

#include <algorithm>

#include "kernels/decode/pack.hpp"

namespace tessera::decode {
namespace {

std::size_t matrix_bytes(int rows, int columns) {
  return 2 * static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

std::size_t floats(int rows, int columns) { return 2 * matrix_bytes(rows, columns); }

PackedWeights places(Model const& m, unsigned char* base) {
  Pieces pieces(base);
  PackedWeights result;
  for (int i = 0; i < m.layers; ++i) {
    PackedLayer layer;
    layer.qkv = pieces.take(matrix_bytes(m.qkv_features(), m.hidden));
    layer.out = pieces.take(matrix_bytes(m.hidden, m.attended()));
    layer.gate_up = pieces.take(matrix_bytes(m.mlp_rows() * m.intermediate, m.hidden));
    layer.down = pieces.take(matrix_bytes(m.hidden, m.intermediate));
    result.layers.push_back(layer);
  }
  result.head = pieces.take(matrix_bytes(m.vocabulary, m.hidden));
  if (m.has_qkv_shifts()) result.qkv_shifts = pieces.take<float>(floats(m.layers, m.qkv_features()));
  if (m.has_out_shifts()) result.out_shifts = pieces.take<float>(floats(m.layers, m.hidden));
  if (m.has_up_shifts()) result.up_shifts = pieces.take<float>(floats(m.layers, m.intermediate));
  if (m.mlp_biases) result.down_shifts = pieces.take<float>(floats(m.layers, m.hidden));
  if (m.layer_norms) {
    result.head_shifts = pieces.take<float>(floats(1, m.vocabulary));
    result.column_means = pieces.take<float>(floats(1, std::max(m.attended(), m.intermediate)));
  }
  if (m.learned_positions > 0) {
    result.positions = pieces.take<float>(floats(m.learned_positions, m.hidden));
    result.means = pieces.take<float>(floats(1, m.vocabulary));
  }
  if (m.norms_heads) result.head_gains = pieces.take(matrix_bytes(m.layers, 2 * m.head_size));
  result.bytes = pieces.used();
  return result;
}

/// Rows from `first` on of a matrix without steps.
void const* from_row(void const* matrix, int first, int columns) {
  return static_cast<unsigned char const*>(matrix) + matrix_bytes(first, columns);
}

std::vector<PackedRows> rows_of_layer(Model const& m, LayerWeights const& from, PackedLayer const& to,
                                      float const* means) {
  std::vector<PackedRows> result;
  int const queries = m.group() * m.head_size, of_head = queries + 2 * m.head_size;
  int const turned = m.rotation.interleaved ? m.head_size : 0;
  for (int h = 0; h < m.kv_heads; ++h) {
    int const first = h * of_head;
    result.push_back({from_row(from.q, h * queries, m.hidden), to.qkv, from.attention_norm, queries, m.hidden,
                      first, 1, nullptr, turned});
    result.push_back({from_row(from.k, h * m.head_size, m.hidden), to.qkv, from.attention_norm, m.head_size,
                      m.hidden, first + queries, 1, nullptr, turned});
    result.push_back({from_row(from.v, h * m.head_size, m.hidden), to.qkv, from.attention_norm, m.head_size,
                      m.hidden, first + queries + m.head_size, 1});
  }
  result.push_back({from.o, to.out, nullptr, m.hidden, m.attended(), 0, 1, means});
  int const rows = m.mlp_rows();
  if (!m.gelu) result.push_back({from.gate, to.gate_up, from.mlp_norm, m.intermediate, m.hidden, 0, rows});
  result.push_back({from.up, to.gate_up, from.mlp_norm, m.intermediate, m.hidden, rows - 1, rows});
  result.push_back({from.down, to.down, nullptr, m.hidden, m.intermediate, 0, 1, means});
  return result;
}

/// Gains of heads, a row for queries and one for keys.
std::vector<PackedRows> gains_of_layer(Model const& m, LayerWeights const& from, PackedWeights const& to,
                                       int layer) {
  if (!m.norms_heads) return {};
  return {{from.q_norm, to.head_gains, nullptr, 1, m.head_size, 2 * layer, 1},
          {from.k_norm, to.head_gains, nullptr, 1, m.head_size, 2 * layer + 1, 1}};
}

/// `bias` from its element `first` on, if there is one.
void const* from_element(void const* bias, int first) {
  return bias == nullptr ? nullptr : from_row(bias, first, 1);
}

/// What is added to the layer's products, in the order of their rows.
std::vector<RowShifts> shifts_of_layer(Model const& m, LayerWeights const& from, PackedWeights const& to,
                                       int layer) {
  std::vector<RowShifts> result;
  int const queries = m.group() * m.head_size, size = m.head_size;
  auto* row = to.qkv_shifts + static_cast<std::ptrdiff_t>(layer) * m.qkv_features();
  int const turned = m.rotation.interleaved ? size : 0;
  auto const add_qkv = [&](void const* bias, void const* matrix, int first, int rows, int interleaved) {
    result.push_back({from_element(bias, first), from_row(matrix, first, m.hidden), from.attention_norm_bias,
                      row, rows, m.hidden, interleaved});
    row += rows;
  };
  for (int h = 0; h < m.kv_heads && m.has_qkv_shifts(); ++h) {
    add_qkv(from.q_bias, from.q, h * queries, queries, turned);
    add_qkv(from.k_bias, from.k, h * size, size, turned);
    add_qkv(from.v_bias, from.v, h * size, size, 0);
  }
  auto const of_layer = [layer](float* all, int rows) {
    return all + static_cast<std::ptrdiff_t>(layer) * rows;
  };
  if (m.has_out_shifts())
    result.push_back({from.o_bias, nullptr, nullptr, of_layer(to.out_shifts, m.hidden), m.hidden, 0});
  if (m.has_up_shifts())
    result.push_back({from.up_bias, from.up, from.mlp_norm_bias, of_layer(to.up_shifts, m.intermediate),
                      m.intermediate, m.hidden});
  if (m.mlp_biases)
    result.push_back({from.down_bias, nullptr, nullptr, of_layer(to.down_shifts, m.hidden), m.hidden, 0});
  return result;
}

/// What the head adds, and what is added to rows of the embedding.
cudaError_t pack_ends(Model const& m, Weights const& from, PackedWeights const& to, cudaStream_t stream) {
  auto const* const head = from.head != nullptr ? from.head : from.embedding;
  auto error = cudaSuccess;
  auto const then = [&](auto const& call) {
    if (error == cudaSuccess) error = call();
  };
  if (m.layer_norms)
    then([&] {
      return add_shifts({nullptr, head, from.norm_bias, to.head_shifts, m.vocabulary, m.hidden}, stream);
    });
  if (m.learned_positions > 0)
    then([&] {
      return add_shifts({from.positions, nullptr, nullptr, to.positions, m.learned_positions * m.hidden, 0},
                        stream);
    });
  if (!m.layer_norms) return error;
  then([&] { return center_rows(to.positions, m.learned_positions, m.hidden, stream); });
  then([&] { return row_means(from.embedding, m.vocabulary, m.hidden, to.means, stream); });
  for (auto* const shifts : {to.out_shifts, to.down_shifts})
    if (shifts != nullptr) then([&] { return center_rows(shifts, m.layers, m.hidden, stream); });
  return error;
}

}  // namespace

std::size_t packed_bytes(Model const& model) { return places(model, nullptr).bytes; }

Expected<PackedWeights> pack_weights(Model const& m, Weights const& weights, cudaStream_t stream) {
  auto const memory = zeroed_memory(packed_bytes(m), stream);
  if (!memory) return tl::make_unexpected(memory.error());
  auto result = places(m, memory->get());
  result.memory = *memory;
  auto error = cudaSuccess;
  auto const copy = [&](PackedRows const& rows) {
    if (error == cudaSuccess && rows.means != nullptr)
      error = column_means(rows.from, rows.rows, rows.columns, result.column_means, stream);
    if (error == cudaSuccess) error = pack(rows, stream);
  };
  for (std::size_t i = 0; i < result.layers.size(); ++i) {
    auto const& layer = weights.layers[i];
    for (auto const& rows : rows_of_layer(m, layer, result.layers[i], result.column_means)) copy(rows);
    for (auto const& rows : gains_of_layer(m, layer, result, static_cast<int>(i))) copy(rows);
    for (auto const& shifts : shifts_of_layer(m, layer, result, static_cast<int>(i)))
      if (error == cudaSuccess) error = add_shifts(shifts, stream);
  }
  copy({weights.head != nullptr ? weights.head : weights.embedding, result.head, weights.norm, m.vocabulary,
        m.hidden, 0, 1});
  if (error == cudaSuccess) error = pack_ends(m, weights, result, stream);
  if (auto ok = check_call(error, "copying weights"); !ok) return tl::make_unexpected(ok.error());
  return result;
}

}  // namespace tessera::decode
