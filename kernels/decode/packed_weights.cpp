// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/packed_weights.hpp"

#include "kernels/decode/pack.hpp"

namespace tessera::decode {
namespace {

std::size_t matrix_bytes(int rows, int columns) {
  return 2 * static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

PackedWeights places(Model const& m, unsigned char* base) {
  Pieces pieces(base);
  PackedWeights result;
  for (int i = 0; i < m.layers; ++i) {
    PackedLayer layer;
    layer.qkv = pieces.take(matrix_bytes(m.qkv_features(), m.hidden));
    layer.out = pieces.take(matrix_bytes(m.hidden, m.attended()));
    layer.gate_up = pieces.take(matrix_bytes(2 * m.intermediate, m.hidden));
    layer.down = pieces.take(matrix_bytes(m.hidden, m.intermediate));
    result.layers.push_back(layer);
  }
  result.head = pieces.take(matrix_bytes(m.vocabulary, m.hidden));
  if (m.qkv_biases) result.qkv_biases = pieces.take(matrix_bytes(m.layers, m.qkv_features()));
  if (m.out_biases) result.out_biases = pieces.take(matrix_bytes(m.layers, m.hidden));
  if (m.norms_heads) result.head_gains = pieces.take(matrix_bytes(m.layers, 2 * m.head_size));
  result.bytes = pieces.used();
  return result;
}

/// Rows from `first` on of a matrix without steps.
void const* from_row(void const* matrix, int first, int columns) {
  return static_cast<unsigned char const*>(matrix) + matrix_bytes(first, columns);
}

std::vector<PackedRows> rows_of_layer(Model const& m, LayerWeights const& from, PackedLayer const& to) {
  std::vector<PackedRows> result;
  int const queries = m.group() * m.head_size, of_head = queries + 2 * m.head_size;
  for (int h = 0; h < m.kv_heads; ++h) {
    int const first = h * of_head;
    result.push_back(
        {from_row(from.q, h * queries, m.hidden), to.qkv, from.attention_norm, queries, m.hidden, first, 1});
    result.push_back({from_row(from.k, h * m.head_size, m.hidden), to.qkv, from.attention_norm, m.head_size,
                      m.hidden, first + queries, 1});
    result.push_back({from_row(from.v, h * m.head_size, m.hidden), to.qkv, from.attention_norm, m.head_size,
                      m.hidden, first + queries + m.head_size, 1});
  }
  result.push_back({from.o, to.out, nullptr, m.hidden, m.attended(), 0, 1});
  result.push_back({from.gate, to.gate_up, from.mlp_norm, m.intermediate, m.hidden, 0, 2});
  result.push_back({from.up, to.gate_up, from.mlp_norm, m.intermediate, m.hidden, 1, 2});
  result.push_back({from.down, to.down, nullptr, m.hidden, m.intermediate, 0, 1});
  return result;
}

/// Biases and norms of heads, a row for each head: biases of qkv in the order of its rows.
std::vector<PackedRows> heads_of_layer(Model const& m, LayerWeights const& from, PackedWeights const& to,
                                       int layer) {
  std::vector<PackedRows> result;
  int const of_head = m.group() + 2, before = layer * m.kv_heads * of_head, size = m.head_size;
  for (int h = 0; h < m.kv_heads && m.qkv_biases; ++h) {
    int const first = before + h * of_head;
    result.push_back(
        {from_row(from.q_bias, h * m.group(), size), to.qkv_biases, nullptr, m.group(), size, first, 1});
    result.push_back({from_row(from.k_bias, h, size), to.qkv_biases, nullptr, 1, size, first + m.group(), 1});
    result.push_back(
        {from_row(from.v_bias, h, size), to.qkv_biases, nullptr, 1, size, first + m.group() + 1, 1});
  }
  if (m.out_biases) result.push_back({from.o_bias, to.out_biases, nullptr, 1, m.hidden, layer, 1});
  if (m.norms_heads) {
    result.push_back({from.q_norm, to.head_gains, nullptr, 1, size, 2 * layer, 1});
    result.push_back({from.k_norm, to.head_gains, nullptr, 1, size, 2 * layer + 1, 1});
  }
  return result;
}

}  // namespace

std::size_t packed_bytes(Model const& model) { return places(model, nullptr).bytes; }

Expected<PackedWeights> pack_weights(Model const& m, Weights const& weights, cudaStream_t stream) {
  auto const memory = zeroed_memory(packed_bytes(m), stream);
  if (!memory) return tl::make_unexpected(memory.error());
  auto result = places(m, memory->get());
  result.memory = *memory;
  std::vector<PackedRows> all;
  for (std::size_t i = 0; i < result.layers.size(); ++i) {
    auto const& layer = weights.layers[i];
    for (auto const& rows :
         {rows_of_layer(m, layer, result.layers[i]), heads_of_layer(m, layer, result, static_cast<int>(i))})
      all.insert(all.end(), rows.begin(), rows.end());
  }
  all.push_back({weights.head != nullptr ? weights.head : weights.embedding, result.head, weights.norm,
                 m.vocabulary, m.hidden, 0, 1});
  for (auto const& rows : all)
    if (auto ok = check_call(pack(rows, stream), "copying weights"); !ok)
      return tl::make_unexpected(ok.error());
  return result;
}

}  // namespace tessera::decode
