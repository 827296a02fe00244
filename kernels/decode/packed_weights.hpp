// SPDX-License-Identifier: Apache-2.0
// A model's weights as the launches of a step read them.
#pragma once

#include "kernels/decode/decoder.hpp"
#include "kernels/decode/device_memory.hpp"

namespace tessera::decode {

struct PackedLayer {
  void *qkv = nullptr, *out = nullptr, *gate_up = nullptr, *down = nullptr;
};
struct PackedWeights {
  std::vector<PackedLayer> layers;
  void* head = nullptr;
  /// What is added to what products come to, of all layers one behind the other; null where nothing is:
  /// biases, and those of LayerNorm through the product behind it. [layer][row of qkv], [layer][hidden],
  /// [layer][intermediate], [layer][hidden], and of the head, [vocabulary].
  float *qkv_shifts = nullptr, *out_shifts = nullptr, *up_shifts = nullptr, *down_shifts = nullptr,
        *head_shifts = nullptr;
  /// Where positions are learned: StepEnd's.
  float *positions = nullptr, *means = nullptr;
  void* head_gains = nullptr;     ///< of heads that are normed, [layer][of queries, of keys][head_size]
  float* column_means = nullptr;  ///< of a matrix, while it is packed
  std::size_t bytes = 0;
  Memory memory;
};

std::size_t packed_bytes(Model const& model);
/// Rows of qkv: for each key head its query heads, its key, its value. Of gate_up: gate and up in turns.
///
/// LayerNorm subtracts the mean of what it reads. All of them read the same stream of residuals, and so does
/// nothing else: its mean may be subtracted from all that is added to it. So columns of out and down, their
/// biases and rows of the embeddings are made to have the mean 0, and LayerNorm is RMSNorm then.
Expected<PackedWeights> pack_weights(Model const& model, Weights const& weights, cudaStream_t stream);

}  // namespace tessera::decode
