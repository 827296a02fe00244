// SPDX-License-Identifier: Apache-2.0
// A layer over rows of tokens as a launch for each operator: norms, products on the weights that steps read,
// by cuBLASLt or by our kernel for few rows, and the activation. Between products of ours norms, biases and
// activations take no launch. Attention is the caller's. What lies between the products is done in fp32 and
// rounded once.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "kernels/decode/decoder.hpp"
#include "kernels/decode/device_memory.hpp"
#include "kernels/decode/layer_products.hpp"
#include "kernels/decode/packed_weights.hpp"
#include "kernels/decode/rotation_table.hpp"
#include "kernels/norm_rope/rope.hpp"

namespace tessera::decode {

/// In device memory, a row for each token.
struct RowBuffers {
  float* stream = nullptr;  ///< [row][hidden], of residuals
  void *normed = nullptr, *qkv = nullptr, *attended = nullptr;
  void* gate_up = nullptr;    ///< [row][2 * intermediate]; of an MLP with a gate alone
  void* h = nullptr;          ///< [row][intermediate]
  void* workspace = nullptr;  ///< cublaslt::workspace_bytes
  float* squares = nullptr;   ///< of `stream`, as skinny_gemm::Operands has them; null: norms are launches
};

/// Of a vector for each layer, `size` elements each; null where there is none.
inline float const* of_layer(float const* all, int layer, int size) {
  return all == nullptr ? nullptr : all + static_cast<std::ptrdiff_t>(layer) * size;
}

/// rows.normed = norm(rows.stream + shift), without gains, which are in the weights; null: no shift.
/// `by_ours`: the product behind it is_ours(), and may begin at once.
Expected<void> norm_rows(Model const& model, RowBuffers const& rows, int count, float const* shift,
                         bool by_ours, cudaStream_t stream);

/// What layers leave to the norm behind them.
struct LayersEnd {
  float const* shift = nullptr;  ///< still to be added to `stream`; null: nothing
  /// Of `stream`, of which `normed` is a rounded copy. Without squares: it is not.
  skinny_gemm::InputNorm norm = {};
};

class OperatorLaunches {
 public:
  /// Loads the products of so many rows, and finds the fastest ways among `timed`; nothing: products are the
  /// library's first guess. Products of `by_library` are the library's all the same. E0533: it has no such
  /// product.
  static Expected<OperatorLaunches> make(Model const& model, PackedWeights const& weights,
                                         RowBuffers const& buffers, int rows, std::optional<ProductsOf> timed,
                                         std::vector<LayerOperator> const& by_library, cudaStream_t stream);

  /// Enqueues what makes `attended` of `qkv` in a layer.
  using Attend = std::function<Expected<void>(cudaStream_t stream, int layer)>;
  /// Enqueues a layer over the first `rows` rows, or one operator of it.
  Expected<void> layer(cudaStream_t stream, int number, int rows, Attend const& attend) const;
  Expected<void> enqueue(cudaStream_t stream, LayerOperator which, int number, int rows,
                         Attend const& attend) const;
  /// Ways of a product that were nearly as fast alone, the one that is taken first. Empty: none was timed.
  std::vector<Way> ways(LayerOperator product) const {
    auto const found = ways_.find(product);
    return found == ways_.end() ? std::vector<Way>() : found->second;
  }
  /// Takes one of them from now on: norms are where all of them have them.
  void take(LayerOperator product, Way const& way) { ways_.at(product).front() = way; }
  /// What the last layer leaves of so many rows.
  LayersEnd end(int rows) const;
  /// Queries and keys of a layer, to be normed and turned where they are.
  kernels::Heads heads(int layer, int rows, Turn const* turns) const;

 private:
  /// Ways are known of as many rows as make() had.
  MaybeWay way_of(LayerOperator which, int rows) const {
    auto const found = ways_.find(which);
    return rows == rows_ && found != ways_.end() ? MaybeWay(found->second.front()) : std::nullopt;
  }
  bool by_ours(LayerOperator which, int rows) const { return is_ours(way_of(which, rows)); }
  /// Of an operator that is a product.
  LaunchedProduct product_of(LayerOperator which, int rows) const;
  ProductOperands operands_of(LayerOperator product, int layer, int rows) const;
  /// The norm of what a product of ours that is added to the stream leaves behind; without squares where that
  /// product is the library's.
  skinny_gemm::InputNorm norm_behind(LayerOperator product, int rows) const;
  /// Is a layer's norm done by the products before and behind it, both ours?
  bool is_in_products(LayerOperator norm, int layer, int rows) const;
  Expected<void> multiply(cudaStream_t stream, LayerOperator product, int layer, int rows) const;
  Expected<void> find_way(LayerOperator which, ProductsOf among, cudaStream_t stream);

  Model model_;
  PackedWeights weights_;
  RowBuffers own_;
  int rows_ = 0;                                    ///< of make()
  std::map<LayerOperator, std::vector<Way>> ways_;  ///< that which is taken first
};

}  // namespace tessera::decode
