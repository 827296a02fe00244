// SPDX-License-Identifier: Apache-2.0
// Sizes of decoders that kernels/decode can generate tokens with: Llama's layers, those of Qwen 2.5 and 3,
// and GPT-2's. Plain values.
#pragma once

#include <optional>
#include <string>
#include <tessera/diagnostic.hpp>
#include <vector>

namespace tessera::decode {

/// How positions turn queries and keys (rotary embedding).
struct Rotation {
  double theta = 10000;
  /// Llama 3's frequency scaling; factor 1: none.
  double factor = 1;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  int original_positions = 8192;
  /// Phi 3's "longrope": what each of head_size / 2 frequencies is divided by, in decoders with room for the
  /// original positions at most, and in others. Empty: nothing.
  std::vector<float> short_factors, long_factors;
  double attention_factor = 1;  ///< of cosines and sines
  /// Dimension 2 d is turned with 2 d + 1; else d with d + head_size / 2 (half-split). Rows of weights are
  /// put where kernels find pairs half a head apart, so cached keys lie in that order.
  bool interleaved = false;
};

/// A decoder of layers x + O(attention(norm(x))), x + down(silu(gate(norm(x))) * up(norm(x))), RMSNorm before
/// the head, a head with or without weights of its own. Attention's products may have biases, its heads
/// norms, and layers from one on the same window. As GPT-2 has them, norms may be LayerNorm with biases, the
/// MLP down(gelu(up(norm(x)))) with biases, and positions learned. What a model has beside that is not
/// computed, so biases of an MLP with gates are said here to be refused.
struct Model {
  std::string name;
  int layers = 0;
  int hidden = 0;
  int intermediate = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_size = 0;
  int vocabulary = 0;
  double norm_epsilon = 1e-5;
  Rotation rotation;
  bool tied = false;          ///< the head is the embedding
  bool qkv_biases = false;    ///< added to queries, keys and values
  bool out_biases = false;    ///< to what attention comes to
  bool mlp_biases = false;    ///< of up and down
  bool gelu = false;          ///< the MLP has no gate, and GELU in its tanh form
  bool layer_norms = false;   ///< LayerNorm with biases in place of RMSNorm
  int learned_positions = 0;  ///< rows of an embedding of positions; 0: positions turn queries and keys
  /// Files have queries, keys and values in one matrix, and gate and up (Phi 3); nothing else differs.
  bool joined_files = false;
  bool norms_heads = false;  ///< RMSNorm of each head's queries and keys, before positions turn them
  int window = 0;            ///< keys that a token sees, its own among them; 0: all
  int window_from = 0;       ///< the first layer with that window; those before it see all keys
  int gpus = 1;              ///< these sizes are one GPU's share of so many: share_of()

  int group() const { return heads / kv_heads; }  ///< query heads to a key head
  int qkv_features() const { return (heads + 2 * kv_heads) * head_size; }
  int attended() const { return heads * head_size; }
  /// Have layers what Llama's have not, and the head?
  bool has_extras() const {
    return has_qkv_shifts() || has_out_shifts() || has_up_shifts() || norms_heads || window > 0;
  }
  bool head_has_extras() const { return layer_norms || learned_positions > 0; }
  /// Is anything added to what products come to? A norm's bias goes through those behind it.
  bool has_qkv_shifts() const { return qkv_biases || layer_norms; }
  bool has_out_shifts() const { return out_biases; }
  bool has_up_shifts() const { return mlp_biases || layer_norms; }
  /// Rows of weights to a feature of the MLP.
  int mlp_rows() const { return gelu ? 1 : 2; }
  /// Of so many cached tokens those that the next one reads; layers of both kinds: on average.
  int read_of(int cached) const {
    if (window == 0 || cached < window) return cached;
    long long const in_windows = static_cast<long long>(layers - window_from) * (window - 1);
    return static_cast<int>((static_cast<long long>(window_from) * cached + in_windows) / layers);
  }
  /// Of weights that a token reads, without the embedding's row, norms and biases.
  double weight_bytes() const;
  /// Of keys and values of one cached token.
  double cache_bytes() const { return 4.0 * layers * kv_heads * head_size; }
};

/// Models known by name: llama-3.2-1b, llama-3.2-3b, llama-3-8b, qwen2.5-0.5b, qwen2.5-7b, qwen3-0.6b,
/// qwen3-4b, qwen3-8b, gpt2.
std::vector<Model> const& known_models();
/// Likewise, of which one GPU takes a share: llama-3-70b, llama-65b, gpt-3-145b.
std::vector<Model> const& large_models();
/// "llama-65b"; "llama-65b:8" is share_of() it, of 8 GPUs. Refuses (E0566) other names, and as share_of().
Expected<Model> model_of(std::string const& name);

/// What one of so many GPUs computes of a model that is divided among them: its query heads and features of
/// the MLP, and its key heads, of which there is one at least. The embedding, norms, biases behind `out` and
/// `down`, and the head are whole. What `out` and `down` come to would be summed over the GPUs, which is not
/// done. The name gets ":8". Refuses (E0215) heads and features that cannot be divided, (E0216) another
/// number than 1 to 65536, and (E0566) the share of a share.
Expected<Model> share_of(Model model, int gpus);

constexpr int k_most_batch = 64;
constexpr int k_most_group = 8;
constexpr int k_most_capacity = 1 << 17;

/// What the kernels do not compute of a model, and the member of a config.json that says it.
struct Unsupported {
  char const* member;
  std::string message, way_out;
};
std::optional<Unsupported> unsupported(Model const& model);
/// Refuses (E0566) the same.
Expected<void> check_model(Model const& model);
/// Tokens that a sequence can have: k_most_capacity, or as many as there are learned positions.
int most_capacity(Model const& model);
/// Refuses (E0566) another number of sequences than 1 to k_most_batch, or of tokens than 1 to `most`, which
/// is most_capacity().
Expected<void> check_sequences(int batch, int capacity, int most = k_most_capacity);

}  // namespace tessera::decode
