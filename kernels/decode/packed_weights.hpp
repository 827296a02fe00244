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
  /// Of all layers, one behind the other; null where the model has none. [layer][row of qkv],
  /// [layer][hidden], and gains of norms, [layer][of queries, of keys][head_size].
  void *qkv_biases = nullptr, *out_biases = nullptr, *head_gains = nullptr;
  std::size_t bytes = 0;
  Memory memory;
};

std::size_t packed_bytes(Model const& model);
/// Rows of qkv: for each key head its query heads, its key, its value. Of gate_up: gate and up in turns.
Expected<PackedWeights> pack_weights(Model const& model, Weights const& weights, cudaStream_t stream);

}  // namespace tessera::decode
