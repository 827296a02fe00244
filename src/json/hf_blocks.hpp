// SPDX-License-Identifier: Apache-2.0
// Blocks of a decoder-only transformer as operators of one GPU's share.
#pragma once

#include <vector>

#include "json/reader.hpp"
#include "tessera/describe/workload_json.hpp"

namespace tessera::json {

/// What of a layer multiplies: an MLP, or experts with rows of their own.
struct Mlp {
  std::int64_t rows = 1, inner = 1;
  std::vector<std::int64_t> groups = {};
};

/// GPT: up projection with GeLU, down projection. Gated: gate and up as one GEMM of twice the width, each
/// gate beside its up, with SwiGLU or GeGLU in its epilogue, which is how the compiled kernels have it
/// (cuSync, II-B1, has it in the down projection's loads).
std::vector<Operator> mlp_operators(TransformerShape const& model, Mlp const& mlp);

/// Unfused attention (cuSync, figure 2b): QKV GEMM, scores, softmax and dropout, context, output GEMM. All
/// keys are scored, without use of the causal mask. Keys and values of earlier tokens come from the cache
/// and have no producer; the QKV GEMM writes the new ones.
std::vector<Operator> attention_operators(TransformerShape const& model, AttentionShape const& a);

/// QKV GEMM, attention in one kernel, output GEMM. Keys and values of earlier tokens come from the cache.
/// `prompts`: tokens of each sequence, where they are unequal.
std::vector<Operator> fused_attention_operators(TransformerShape const& model, AttentionShape const& a,
                                                std::vector<std::int64_t> const& prompts);

/// What layers of some models have and others have not.
struct LayerParts {
  bool turns = true;           ///< queries and keys are turned by their positions
  bool qkv_biases = false;     ///< added where heads are turned
  bool output_biases = false;  ///< of the output product: added by the norm behind it
  bool down_biases = false;    ///< of the down product: added by the first norm of the next layer
  std::int64_t layers = 0;     ///< that the model has; 0: the config does not say
};

/// E0214: layers that are built in another way than kernels/decode runs them, or of which a part is.
LayerParts read_layer(Document& document, TransformerShape const& model);

/// A layer of a prompt as kernels/decode runs it: norm, QKV GEMM, heads turned, attention in one kernel,
/// output GEMM that adds the residual, norm, MLP whose last GEMM adds the residual. The stream of residuals
/// is fp32. Several are one behind the other: operators and weights of layer 3 end with "_3".
std::vector<Operator> layer_operators(TransformerShape const& model, LayerParts const& parts,
                                      AttentionShape const& a, std::vector<std::int64_t> const& prompts,
                                      std::int64_t inner, std::int64_t layers);

}  // namespace tessera::json
