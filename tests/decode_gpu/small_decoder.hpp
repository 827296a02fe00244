// SPDX-License-Identifier: Apache-2.0
// A small decoder on the GPU beside the plain one: the same random weights.
#pragma once

#include <gtest/gtest.h>

#include <deque>

#include "decode/reference.hpp"
#include "gpu/device_buffer.hpp"
#include "kernels/decode/decoder.hpp"
#include "support/assert_ok.hpp"

namespace tessera::decode {

/// Weights of the reference in device memory.
class WeightsOnDevice {
 public:
  explicit WeightsOnDevice(reference::Weights const& from) {
    for (auto const& l : from.layers)
      weights.layers.push_back({put(l.attention_norm), put(l.q), put(l.k), put(l.v), put(l.o),
                                put(l.mlp_norm), put(l.gate), put(l.up), put(l.down), put(l.q_bias),
                                put(l.k_bias), put(l.v_bias), put(l.o_bias), put(l.q_norm), put(l.k_norm),
                                put(l.attention_norm_bias), put(l.mlp_norm_bias), put(l.up_bias),
                                put(l.down_bias)});
    weights.embedding = put(from.embedding);
    weights.norm = put(from.norm);
    weights.norm_bias = put(from.norm_bias), weights.positions = put(from.positions);
    if (!from.model.tied) weights.head = put(from.head);
  }
  Weights weights;

 private:
  void const* put(reference::Numbers const& numbers) {
    if (numbers.empty()) return nullptr;
    std::vector<unsigned short> bits;
    for (float const one : numbers) bits.push_back(reference::to_bf16(one));
    buffers_.emplace_back(bits.size()).upload(bits);
    return buffers_.back().get();
  }
  std::deque<gpu::DeviceBuffer<unsigned short>> buffers_;
};

/// Logits of the last step: a row for each sequence.
inline std::vector<reference::Numbers> logits_of(Decoder const& decoder, Model const& model, int batch) {
  std::vector<float> all(static_cast<std::size_t>(model.vocabulary) * static_cast<std::size_t>(batch));
  gpu::ok(cudaMemcpy(all.data(), decoder.logits(), all.size() * sizeof(float), cudaMemcpyDeviceToHost));
  std::vector<reference::Numbers> result;
  for (auto row = all.begin(); row != all.end(); row += model.vocabulary)
    result.emplace_back(row, row + model.vocabulary);
  return result;
}

}  // namespace tessera::decode
