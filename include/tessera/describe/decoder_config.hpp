// SPDX-License-Identifier: Apache-2.0
// A decoder-only transformer, whole, as its Hugging Face config.json says: what generates tokens reads more
// of it than what plans a layer. Pure: the caller reads the file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "workload_json.hpp"

namespace tessera {

/// Rotary positions. factor 1: none of Llama 3's scaling. Long factors: Phi 3's "longrope", which divides
/// each frequency by a number of its own, other ones for sequences beyond the original positions.
struct RotaryPositions {
  double theta = 10000;
  double factor = 1, low_frequency_factor = 1, high_frequency_factor = 4;
  std::int64_t original_positions = 8192;
  std::vector<double> short_factors, long_factors;  ///< of half a head's dimensions; empty: none
  double attention_factor = 1;                      ///< by which what is turned becomes longer
  bool interleaved = false;  ///< pairs are dimensions 2 i and 2 i + 1; else i and i + half a head
};

struct DecoderConfig {
  TransformerShape layer;
  std::int64_t layers = 1, vocabulary = 1;
  std::int64_t positions = 0;  ///< that the model was made for; 0: the config does not say
  double norm_epsilon = 1e-6;
  RotaryPositions rotation;
  bool tied = false;            ///< the head is the embedding
  bool attention_bias = false;  ///< as the config says; families that always have some do not say so
  bool mlp_bias = false;
  std::string activation;        ///< of the MLP, by its name
  std::int64_t window_from = 0;  ///< the first layer with the window
  std::string file;
  std::map<std::string, int> lines;  ///< where members stand that a reader may refuse

  SourceLine at(std::string const& member) const {
    auto const line = lines.find(member);
    return {file, line == lines.end() ? 0 : line->second};
  }
};

/// Of the families that import_hf_config() knows those that are built as Llama, or nearly: llama, mistral,
/// qwen2, qwen3, phi3, helium, ernie4_5; and gpt2, which names its members in another way. What a config
/// leaves out has the default of their configuration classes. E0201, E0211 to E0214, E0217 as
/// import_hf_config(); E0214 also for positions that are scaled in another way than Llama 3's or Phi 3's, or
/// turn a part of a head, for scores of gpt2 that are scaled in another way than by the size of heads, and
/// for quantized weights. Weights may be of any other type.
Expected<DecoderConfig> import_hf_decoder(std::string_view json, std::string const& file);

}  // namespace tessera
