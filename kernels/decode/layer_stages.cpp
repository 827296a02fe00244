// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/layer_stages.hpp"

namespace tessera::decode {
namespace {

/// Words order nothing but themselves: the stream of residuals is read behind stages that wait for no
/// semaphore, so it is words, too.
void carry_words(std::vector<few_tokens::ProductStage>& stages, LayerWords const& words) {
  auto const pass = [&](Stage from, unsigned* at, Stage to) {
    stages[from].product.output_words[0] = at;
    stages[to].product.input_words[0] = at;
  };
  stages[k_qkv].product.output_words[0] = words.qkv;
  stages[k_out].product.input_words[0] = words.attended;
  pass(k_out, words.y, k_gate_up);
  pass(k_gate_up, words.h, k_down);
  pass(k_down, words.x, k_qkv);
  for (auto const stage : {k_qkv, k_out, k_gate_up}) stages[stage].outputs.clear();  // the head reads x
  for (auto& stage : stages) stage.product.producer_tiles = 0;
  stages[k_out].product.stream_words = stages[k_down].product.stream_words = words.stream;
  stages[k_down].product.stream_turn = 1;
}

}  // namespace

std::vector<few_tokens::ProductStage> layer_stages(Model const& model, PackedWeights const& weights,
                                                   LayerBuffers const& at, int rows, Tiles const& tiles) {
  auto const products = layer_products(model, rows, tiles);
  std::vector<few_tokens::ProductStage> stages(k_stages);
  for (std::size_t s = 0; s < k_stages; ++s) stages[s].product = products[s];
  for (auto const& layer : weights.layers) {
    stages[k_qkv].weights.push_back(layer.qkv);
    stages[k_out].weights.push_back(layer.out);
    stages[k_gate_up].weights.push_back(layer.gate_up);
    stages[k_down].weights.push_back(layer.down);
  }
  stages[k_qkv].product.bias = weights.qkv_shifts, stages[k_out].product.bias = weights.out_shifts;
  stages[k_gate_up].product.bias = weights.up_shifts, stages[k_down].product.bias = weights.down_shifts;
  stages[k_qkv].inputs = {at.x}, stages[k_qkv].outputs = {at.qkv};
  stages[k_out].inputs = {at.attended}, stages[k_out].outputs = {at.y};
  stages[k_gate_up].inputs = {at.y}, stages[k_gate_up].outputs = {at.h};
  stages[k_down].inputs = {at.h}, stages[k_down].outputs = {at.x};
  stages[k_out].product.stream = stages[k_down].product.stream = at.stream;
  if (at.words.x != nullptr) carry_words(stages, at.words);
  return stages;
}

}  // namespace tessera::decode
