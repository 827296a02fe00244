// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/launched_head.hpp"

#include <algorithm>

#include "kernels/decode/find_tokens.hpp"

namespace tessera::decode {

LaunchedProduct LaunchedHead::product() const {
  return {end_.sequences, model_.vocabulary, model_.hidden, Result::fp32};
}

ProductOperands LaunchedHead::operands() const {
  return {rows_.normed, weights_, end_.logits, rows_.workspace};
}

Expected<LaunchedHead> LaunchedHead::make(Model const& model, PackedWeights const& weights,
                                          Options const& options, RowBuffers const& rows,
                                          LayersEnd const& layers, StepEnd const& end, cudaStream_t stream) {
  LaunchedHead result;
  result.model_ = model, result.rows_ = rows, result.end_ = end;
  result.weights_ = weights.head, result.shifts_ = weights.head_shifts;
  auto const gemm = cublaslt::LtGemm::make(library_problem(result.product()));
  if (!gemm) return tl::make_unexpected(gemm.error());
  if (!options.time_products) return result;
  auto set = result.operands();
  set.stream = rows.stream, set.norm = layers.norm;
  set.norm.epsilon = static_cast<float>(model.norm_epsilon);
  auto const ways = fastest_ways(result.product(), {set}, options.products_of, stream);
  if (!ways) return tl::make_unexpected(ways.error());
  result.way_ = ways->front();
  return result;
}

Expected<void> LaunchedHead::find(cudaStream_t stream, LayersEnd const& end) const {
  bool const ours = is_ours(way_);
  auto of_product = operands();
  if (ours && end.norm.squares != nullptr)
    of_product.norm = end.norm;
  else if (auto ok = norm_rows(model_, rows_, end_.sequences, end.shift, ours, stream); !ok)
    return ok;
  if (auto ok = multiply(product(), of_product, way_, stream); !ok) return ok;
  return check_call(find_tokens(end_, shifts_, model_.vocabulary, stream), "finding tokens");
}

}  // namespace tessera::decode
