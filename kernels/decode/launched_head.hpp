// SPDX-License-Identifier: Apache-2.0
// A decoder's head as two or three launches: norm (or in the products around it), product, and the search for
// the next tokens. Nothing in it waits for more than the launches before it.
#pragma once

#include "kernels/decode/decoder.hpp"
#include "kernels/decode/head.hpp"
#include "kernels/decode/operator_launches.hpp"

namespace tessera::decode {

class LaunchedHead {
 public:
  /// Loads the product, and finds its fastest way where Options::time_products asks for it. `layers`: what
  /// they leave to find(), without squares where they leave no norm. `end.logits` has to be there, and a
  /// counter `end.arrived` of each sequence. E0533: the library has no such product.
  static Expected<LaunchedHead> make(Model const& model, PackedWeights const& weights, Options const& options,
                                     RowBuffers const& rows, LayersEnd const& layers, StepEnd const& end,
                                     cudaStream_t stream);

  /// Enqueues what finds the next tokens of rows.stream, with what `end` has for it, and begins the next
  /// step; where tokens are drawn, that is left to sample().
  Expected<void> find(cudaStream_t stream, LayersEnd const& end) const;

 private:
  LaunchedProduct product() const;
  ProductOperands operands() const;

  Model model_;
  void const* weights_ = nullptr;
  float const* shifts_ = nullptr;  ///< of logits
  RowBuffers rows_;
  StepEnd end_;
  MaybeWay way_;
};

}  // namespace tessera::decode
