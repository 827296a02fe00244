// SPDX-License-Identifier: Apache-2.0
// Workloads from text. Pure: the caller reads the file. `file` appears in diagnostics only.
#pragma once

#include <string>
#include <string_view>

#include "workload.hpp"

namespace tessera {

/// Tessera's own format, schema workloads/workload.schema.json: either "operators" or "stages".
/// Diagnostics name file and line.
Expected<Workload> parse_workload(std::string_view json, std::string const& file);

/// The inverse: parse_workload(print_workload(w)) equals w but for source lines.
std::string print_workload(Workload const& workload);

/// Which part of a decoder-only transformer, at which sizes, on one GPU of `tensor_parallel`.
struct BlockOptions {
  /// "mlp", "attention", "local_attention" (of models some of whose layers see a window of the keys),
  /// "fused_attention" (scores, softmax and context in one kernel, causal but for `all_keys`), "layer"
  /// (norms, that attention, MLP and residuals), "experts" (a pair of grouped GEMMs) or "shared_expert".
  std::string block = "mlp";
  std::int64_t tokens = 1;  ///< new tokens per sequence
  std::int64_t sequences = 1;
  std::int64_t cached = 0;  ///< tokens per sequence in the KV cache
  int tensor_parallel = 1;
  std::string data_type;  ///< "fp16", "bf16" or "" (the config's own, else fp16; of a layer bf16)
  /// "experts": tokens that each expert gets; the sum is tokens times experts for each. Empty: all as many.
  std::vector<std::int64_t> routing = {};
  /// "fused_attention", "layer": new tokens of each sequence, in place of `tokens` and `sequences`. Empty: as
  /// those say.
  std::vector<std::int64_t> prompts = {};
  /// "layer": so many, one behind the other, each with weights of its own; 0: all that the config says.
  std::int64_t layers = 1;
  /// "fused_attention": each token sees all of its sequence, not only what comes before it.
  bool all_keys = false;
};

/// A Hugging Face config.json of a decoder-only transformer of a known family (docs/models.md).
/// An unknown model_type is refused with the list of the fields that are needed.
Expected<OperatorGraph> import_hf_config(std::string_view json, std::string const& file,
                                         BlockOptions const& options);

/// Experts of a layer, routed to by token.
struct ExpertsShape {
  std::int64_t count = 0;  ///< 0: the model has none
  std::int64_t per_token = 0, intermediate = 0;
  std::int64_t shared_intermediate = 0;  ///< of the expert that every token goes through; 0: there is none
  bool operator==(ExpertsShape const&) const = default;
};

/// One layer of a decoder-only transformer, whole.
struct TransformerShape {
  std::string type;  ///< the config's model_type
  std::int64_t hidden = 1, heads = 1, kv_heads = 1, head_dim = 1;
  std::int64_t intermediate = 1;     ///< of the MLP; 0: every layer has experts in its place
  std::int64_t window = 0;           ///< attention sees this many keys at most; 0: all
  bool some_layers_see_all = false;  ///< a window is that of some layers, not of all
  bool latent_attention = false;     ///< keys and values are made of a narrower vector (DeepSeek)
  Epilogue epilogue = Epilogue::swiglu;
  ExpertsShape experts;
};

/// What import_hf_config() reads of a config, and refuses: experts, unknown families, heads that cannot be
/// dealt out to the GPUs.
Expected<TransformerShape> import_hf_shape(std::string_view json, std::string const& file,
                                           int tensor_parallel);

/// A convolution network's JSON (workloads/resnet-38.json, vgg-19.json): `block` names one layer group.
struct ConvOptions {
  std::string layer;  ///< "56x56x64"
  std::int64_t images = 1;
};
Expected<OperatorGraph> import_conv_network(std::string_view json, std::string const& file,
                                            ConvOptions const& options);

}  // namespace tessera
