// SPDX-License-Identifier: Apache-2.0
// The products of a layer with the memory that they read and write: for steps that generate, and for steps
// that read prompts.
#pragma once

#include "kernels/decode/layer_plan.hpp"
#include "kernels/decode/packed_weights.hpp"
#include "kernels/few_tokens/product_stage.hpp"

namespace tessera::decode {

/// In device memory, a row for each sequence or row of a step.
struct LayerBuffers {
  float* stream = nullptr;  ///< [row][hidden], of residuals
  void* x = nullptr;        ///< the same, rounded, before a layer, and behind it
  void* y = nullptr;        ///< and between attention and MLP
  void* qkv = nullptr;
  void* attended = nullptr;
  void* h = nullptr;  ///< [row][intermediate]
};

/// Of each stage of the body; that of attention is no product.
std::vector<few_tokens::ProductStage> layer_stages(Model const& model, PackedWeights const& weights,
                                                   LayerBuffers const& buffers, int rows, Tiles const& tiles);

}  // namespace tessera::decode
