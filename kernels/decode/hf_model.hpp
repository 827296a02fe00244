// SPDX-License-Identifier: Apache-2.0
// Hugging Face's models as decoders: what a config.json says as a Model, the names and shapes of its weights,
// and how much memory both take. Arithmetic, without a GPU and without files.
#pragma once

#include <optional>
#include <string>
#include <tessera/describe/decoder_config.hpp>
#include <tessera/weights/weight_files.hpp>
#include <vector>

#include "kernels/decode/model.hpp"

namespace tessera::decode {

/// E0566, with the config's line, for what the kernels do not compute: families of other layers, biases of
/// an MLP with gates, windows of families without, activations, sizes. `gpus`: share_of() it, of so many.
Expected<Model> model_of(DecoderConfig const& config, std::string name, int gpus = 1);

/// E0572 with all members in which the two differ, but for the name. `of_folder` is what the folder's
/// config.json says; it is what a user who names both has got wrong.
Expected<void> check_same(Model const& asked, Model const& of_folder, std::string const& file);

/// How names of GPT-2's tensors begin in files of a model with its head. In those of a bare one, as they were
/// first published, they begin with nothing.
constexpr char const* k_usual_prefix = "transformer.";
std::string prefix_of(Model const& model, WeightFiles const& files);

/// Of a layer, in the order of LayerWeights' members: attention_norm, q, k, v, o, mlp_norm, gate, up, down,
/// and those that the model has of q_bias, k_bias, v_bias, o_bias, q_norm, k_norm. Of GPT-2: ln_1, c_attn,
/// c_proj, ln_2, c_fc and c_proj, a bias behind each. Of joined files: q, k and v are one, and gate and up.
std::vector<WantedTensor> layer_tensors(Model const& model, int layer,
                                        std::string const& prefix = k_usual_prefix);
struct EndTensors {
  WantedTensor embedding;
  std::vector<WantedTensor> others;  ///< the last norm; of GPT-2 its bias and the embedding of positions, too
  std::optional<WantedTensor> head;  ///< of a model that is not tied
};
EndTensors end_tensors(Model const& model, std::string const& prefix = k_usual_prefix);
/// All of these: the embedding, others, layer by layer, and the head.
WantedTensors tensors_of(Model const& model, std::string const& prefix = k_usual_prefix);

/// E0566 for pages that no cache has; 0: none.
Expected<void> check_page_size(int positions);

/// Bytes of device memory, of the parts that count.
struct DecoderMemory {
  double stored = 0;  ///< weights as they are read from files, until they are packed
  double packed = 0;  ///< weights as the kernels read them
  double cache = 0;
  double sum() const { return stored + packed + cache; }
};
/// `random`: weights are not read but made, one layer's for all.
DecoderMemory memory_of(Model const& model, int batch, int capacity, bool random);
/// E0566 where that is more than there is: `bytes` of `where`.
Expected<void> check_memory(DecoderMemory const& needed, double bytes, std::string const& where);

/// Bytes that a step reads with so many cached tokens (Model::read_of()) of all sequences together.
double step_bytes(Model const& model, double cached);

}  // namespace tessera::decode
