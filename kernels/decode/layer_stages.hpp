// SPDX-License-Identifier: Apache-2.0
// The products of a layer with the memory that they read and write: for steps that generate, and for steps
// that read prompts.
#pragma once

#include "kernels/decode/layer_plan.hpp"
#include "kernels/decode/packed_weights.hpp"
#include "kernels/few_tokens/product_stage.hpp"

namespace tessera::decode {

/// What goes as words that carry the iteration, in device memory that was zeroed; null: semaphores say when
/// it is there.
struct LayerWords {
  unsigned *x = nullptr, *y = nullptr, *qkv = nullptr, *attended = nullptr, *h = nullptr;
  Packet<1>* stream = nullptr;
  Packet<1>* parts = nullptr;  ///< AttentionArguments::part_words
  std::size_t bytes = 0;       ///< of all, from x on
};

/// In device memory, a row for each sequence or row of a step.
struct LayerBuffers {
  float* stream = nullptr;  ///< [row][hidden], of residuals
  void* x = nullptr;        ///< the same, rounded, before a layer, and behind it
  void* y = nullptr;        ///< and between attention and MLP
  void* qkv = nullptr;
  void* attended = nullptr;
  void* h = nullptr;  ///< [row][intermediate]
  LayerWords words;
};

/// Of each stage of the body; that of attention is no product.
std::vector<few_tokens::ProductStage> layer_stages(Model const& model, PackedWeights const& weights,
                                                   LayerBuffers const& buffers, int rows, Tiles const& tiles);

}  // namespace tessera::decode
