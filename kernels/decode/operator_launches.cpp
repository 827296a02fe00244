// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/operator_launches.hpp"

#include <algorithm>

#include "kernels/decode/pass_kernels.hpp"
#include "kernels/norm_rope/norm.hpp"
#include "kernels/swiglu/swiglu.hpp"

namespace tessera::decode {

Expected<void> norm_rows(Model const& model, RowBuffers const& rows, int count, float const* shift,
                         bool by_ours, cudaStream_t stream) {
  kernels::Norm norm;
  norm.x = rows.stream, norm.y = rows.normed, norm.shift = shift;
  norm.rows = count, norm.columns = model.hidden;
  norm.epsilon = static_cast<float>(model.norm_epsilon);
  // Attention begins before the product between is complete, and reads what earlier steps wrote. Our products
  // let it begin when the norm is complete; the library's may be programmatic launches that trigger when they
  // like.
  return check_call(kernels::norm(norm, stream, {}, !by_ours), "a norm");
}

Expected<OperatorLaunches> OperatorLaunches::make(Model const& model, PackedWeights const& weights,
                                                  RowBuffers const& buffers, int rows, Timed timed,
                                                  cudaStream_t stream) {
  OperatorLaunches result;
  result.model_ = model, result.weights_ = weights, result.own_ = buffers;
  result.rows_ = rows, result.timed_ = timed;
  if (auto ok = result.find_ways(rows, stream); !ok) return tl::make_unexpected(ok.error());
  return result;
}

LaunchedProduct OperatorLaunches::product_of(LayerOperator which, int rows) const {
  auto const& m = model_;
  switch (which) {
    case LayerOperator::qkv: return {rows, m.qkv_features(), m.hidden, Result::bf16};
    case LayerOperator::out: return {rows, m.hidden, m.attended(), Result::added};
    case LayerOperator::gate_up:
      return {rows, m.mlp_rows() * m.intermediate, m.hidden, m.gelu ? Result::bf16 : Result::gated};
    default: return {rows, m.hidden, m.intermediate, Result::added};
  }
}

ProductOperands OperatorLaunches::operands_of(LayerOperator product, int layer) const {
  auto const& weights = weights_.layers[static_cast<std::size_t>(layer)];
  switch (product) {
    case LayerOperator::qkv: return {own_.normed, weights.qkv, own_.qkv, own_.workspace};
    case LayerOperator::out: return {own_.attended, weights.out, own_.stream, own_.workspace};
    case LayerOperator::gate_up:
      return {own_.normed, weights.gate_up, model_.gelu ? own_.h : own_.gate_up, own_.workspace, own_.h};
    default: return {own_.h, weights.down, own_.stream, own_.workspace};
  }
}

Expected<void> OperatorLaunches::multiply(cudaStream_t stream, LayerOperator product, int layer,
                                          int rows) const {
  return decode::multiply(product_of(product, rows), operands_of(product, layer), timed_ways(rows), stream);
}

Expected<void> OperatorLaunches::find_ways(int rows, cudaStream_t stream) const {
  for (auto const product :
       {LayerOperator::qkv, LayerOperator::out, LayerOperator::gate_up, LayerOperator::down}) {
    auto const one = product_of(product, rows);
    if (auto const gemm = cublaslt::LtGemm::make(library_problem(one)); !gemm)
      return tl::make_unexpected(gemm.error());
    if (!timed_) continue;
    // Numbers of the model's: products of zeros take less power, and are faster than others.
    auto const input = operands_of(product, 0).input;
    auto const bytes =
        2 * std::min(times(rows, one.depth), times(model_.mlp_rows() * model_.intermediate, model_.hidden));
    if (auto ok = check_call(cudaMemcpyAsync(const_cast<void*>(input), weights_.layers.front().gate_up, bytes,
                                             cudaMemcpyDeviceToDevice, stream),
                             "numbers to time products with");
        !ok)
      return ok;
    std::vector<ProductOperands> sets;
    for (int l = 0; l < model_.layers; ++l) sets.push_back(operands_of(product, l));
    if (auto ok = time_ways(one, sets, *timed_, stream); !ok) return ok;
  }
  return {};
}

kernels::Heads OperatorLaunches::heads(int layer, int rows, Turn const* turns) const {
  auto const& m = model_;
  kernels::Heads heads;
  heads.qkv = own_.qkv;
  heads.shifts = of_layer(weights_.qkv_shifts, layer, m.qkv_features());
  if (weights_.head_gains != nullptr) {
    heads.query_gains = bytes_behind(weights_.head_gains, times(2 * layer, m.head_size));
    heads.key_gains = bytes_behind(weights_.head_gains, times(2 * layer + 1, m.head_size));
  }
  heads.norm_epsilon = static_cast<float>(m.norm_epsilon);
  heads.turns = reinterpret_cast<float2 const*>(turns);
  heads.rows = rows, heads.key_heads = m.kv_heads, heads.group = m.group(), heads.head_size = m.head_size;
  return heads;
}

Expected<void> OperatorLaunches::enqueue(cudaStream_t stream, LayerOperator which, int number, int rows,
                                         Attend const& attend) const {
  auto const& m = model_;
  switch (which) {
    case LayerOperator::norm:
      return norm_rows(m, own_, rows,
                       number > 0 ? of_layer(weights_.down_shifts, number - 1, m.hidden) : nullptr,
                       by_ours(LayerOperator::qkv, rows), stream);
    case LayerOperator::mlp_norm:
      return norm_rows(m, own_, rows, of_layer(weights_.out_shifts, number, m.hidden),
                       by_ours(LayerOperator::gate_up, rows), stream);
    case LayerOperator::attention: return attend(stream, number);
    case LayerOperator::activation:
      if (!m.gelu && by_ours(LayerOperator::gate_up, rows)) return {};  // in that product
      return check_call(m.gelu ? add_and_gelu(own_.h, of_layer(weights_.up_shifts, number, m.intermediate),
                                              rows, m.intermediate, stream)
                               : kernels::swiglu(own_.gate_up, own_.h, rows, m.intermediate,
                                                 gpu::ElementType::bf16, stream),
                        "an activation");
    default: return multiply(stream, which, number, rows);
  }
}

Expected<void> OperatorLaunches::layer(cudaStream_t stream, int number, int rows,
                                       Attend const& attend) const {
  for (auto const which : k_layer_operators)
    if (auto ok = enqueue(stream, which, number, rows, attend); !ok) return ok;
  return {};
}

}  // namespace tessera::decode
