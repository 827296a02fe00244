// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/operator_launches.hpp"

#include <algorithm>

#include "kernels/decode/pass_kernels.hpp"
#include "kernels/norm_rope/norm.hpp"
#include "kernels/swiglu/swiglu.hpp"

namespace tessera::decode {
namespace {

bool is_norm(LayerOperator which) { return which == LayerOperator::norm || which == LayerOperator::mlp_norm; }

}  // namespace

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
                                                  RowBuffers const& buffers, int rows,
                                                  std::optional<ProductsOf> timed,
                                                  std::vector<LayerOperator> const& by_library,
                                                  cudaStream_t stream) {
  OperatorLaunches result;
  result.model_ = model, result.weights_ = weights, result.own_ = buffers;
  result.rows_ = rows;
  // Whether a product can norm its input depends on the one before it: that one first.
  for (auto const which :
       {LayerOperator::out, LayerOperator::down, LayerOperator::qkv, LayerOperator::gate_up}) {
    auto const gemm = cublaslt::LtGemm::make(library_problem(result.product_of(which, rows)));
    if (!gemm) return tl::make_unexpected(gemm.error());
    if (!timed) continue;
    bool const theirs = std::find(by_library.begin(), by_library.end(), which) != by_library.end();
    if (auto ok = result.find_way(which, theirs ? ProductsOf::library : *timed, stream); !ok)
      return tl::make_unexpected(ok.error());
  }
  return result;
}

LaunchedProduct OperatorLaunches::product_of(LayerOperator which, int rows) const {
  auto const& m = model_;
  switch (which) {
    case LayerOperator::qkv: return {rows, m.qkv_features(), m.hidden, Result::bf16};
    case LayerOperator::out: return {rows, m.hidden, m.attended(), Result::added};
    case LayerOperator::gate_up:
      return {rows, m.mlp_rows() * m.intermediate, m.hidden, m.gelu ? Result::gelu : Result::gated};
    default: return {rows, m.hidden, m.intermediate, Result::added};
  }
}

ProductOperands OperatorLaunches::operands_of(LayerOperator product, int layer, int rows) const {
  auto const& weights = weights_.layers[static_cast<std::size_t>(layer)];
  auto const& m = model_;
  ProductOperands o;
  o.workspace = own_.workspace;
  auto const normed = [&](LayerOperator norm, LayerOperator before) {
    o.input = own_.normed;
    if (is_in_products(norm, layer, rows)) o.norm = norm_behind(before, rows);
  };
  // `normed` and `squares` have one place: who read them last is a launch before, complete when this writes.
  auto const added = [&](float const* shifts, bool leaves_norm) {
    o.to = own_.stream, o.shift = of_layer(shifts, layer, m.hidden);
    if (leaves_norm && norm_behind(product, rows).squares != nullptr)
      o.rounded = own_.normed, o.squares = own_.squares;
  };
  switch (product) {
    case LayerOperator::qkv:
      normed(LayerOperator::norm, LayerOperator::down);
      o.weights = weights.qkv, o.to = own_.qkv;
      break;
    case LayerOperator::out:
      o.input = own_.attended, o.weights = weights.out;
      added(weights_.out_shifts, by_ours(LayerOperator::gate_up, rows));
      break;
    case LayerOperator::gate_up:
      normed(LayerOperator::mlp_norm, LayerOperator::out);
      o.weights = weights.gate_up, o.to = m.gelu ? own_.h : own_.gate_up, o.gated = own_.h;
      if (m.gelu) o.shift = of_layer(weights_.up_shifts, layer, m.intermediate);
      break;
    default:
      o.input = own_.h, o.weights = weights.down;
      // Behind the last layer is the head, which is not known here.
      added(weights_.down_shifts, layer + 1 == m.layers || by_ours(LayerOperator::qkv, rows));
  }
  return o;
}

skinny_gemm::InputNorm OperatorLaunches::norm_behind(LayerOperator product, int rows) const {
  if (own_.squares == nullptr || !by_ours(product, rows)) return {};
  return {own_.squares, static_cast<float>(model_.norm_epsilon)};
}

bool OperatorLaunches::is_in_products(LayerOperator norm, int layer, int rows) const {
  bool const first = norm == LayerOperator::norm;
  if (first && layer == 0) return false;
  auto const before = first ? LayerOperator::down : LayerOperator::out;
  auto const behind = first ? LayerOperator::qkv : LayerOperator::gate_up;
  return norm_behind(before, rows).squares != nullptr && by_ours(behind, rows);
}

LayersEnd OperatorLaunches::end(int rows) const {
  LayersEnd result;
  if (!by_ours(LayerOperator::down, rows))
    result.shift = of_layer(weights_.down_shifts, model_.layers - 1, model_.hidden);
  result.norm = norm_behind(LayerOperator::down, rows);
  return result;
}

Expected<void> OperatorLaunches::multiply(cudaStream_t stream, LayerOperator product, int layer,
                                          int rows) const {
  return decode::multiply(product_of(product, rows), operands_of(product, layer, rows), way_of(product, rows),
                          stream);
}

Expected<void> OperatorLaunches::find_way(LayerOperator which, ProductsOf among, cudaStream_t stream) {
  auto const product = product_of(which, rows_);
  std::vector<ProductOperands> sets;
  for (int layer = 0; layer < model_.layers; ++layer) {
    auto& set = sets.emplace_back(operands_of(which, layer, rows_));
    if (which == LayerOperator::out || which == LayerOperator::down) {
      if (own_.squares != nullptr) set.rounded = own_.normed, set.squares = own_.squares;
    } else {
      set.stream = own_.stream;
      set.norm = norm_behind(which == LayerOperator::qkv ? LayerOperator::down : LayerOperator::out, rows_);
    }
    set.norm.epsilon = static_cast<float>(model_.norm_epsilon);
  }
  auto ways = fastest_ways(product, sets, among, stream);
  if (!ways) return tl::make_unexpected(ways.error());
  ways_.emplace(which, std::move(*ways));
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
  if (is_norm(which) && is_in_products(which, number, rows)) return {};
  // Products of ours add theirs themselves.
  auto const shift_of = [&](LayerOperator product, float const* shifts, int layer) {
    return by_ours(product, rows) ? nullptr : of_layer(shifts, layer, m.hidden);
  };
  switch (which) {
    case LayerOperator::norm:
      return norm_rows(m, own_, rows,
                       number > 0 ? shift_of(LayerOperator::down, weights_.down_shifts, number - 1) : nullptr,
                       by_ours(LayerOperator::qkv, rows), stream);
    case LayerOperator::mlp_norm:
      return norm_rows(m, own_, rows, shift_of(LayerOperator::out, weights_.out_shifts, number),
                       by_ours(LayerOperator::gate_up, rows), stream);
    case LayerOperator::attention: return attend(stream, number);
    case LayerOperator::activation:
      if (by_ours(LayerOperator::gate_up, rows)) return {};  // in that product
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
