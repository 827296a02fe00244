// SPDX-License-Identifier: Apache-2.0
// What generating tokens needs of a config.json beside a layer's sizes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "diagnostic/nearest.hpp"
#include "json/hf_family.hpp"
#include "json/hf_type.hpp"
#include "tessera/describe/decoder_config.hpp"

namespace tessera {
namespace {

using json::Document;
using json::ObjectReader;

constexpr json::Codes k_codes{"E0201", "E0211", "E0212", "E0212", true};
constexpr std::int64_t k_most_layers = 1 << 16, k_most_tokens = std::int64_t{1} << 31;

constexpr double k_most = 1e12;

void read_llama3(Document& document, ObjectReader& reader, RotaryPositions& rotation) {
  rotation.factor = reader.number("factor", 1, k_most);
  rotation.low_frequency_factor = reader.number("low_freq_factor", 0, k_most);
  rotation.high_frequency_factor = reader.number("high_freq_factor", 0, k_most);
  rotation.original_positions = reader.integer("original_max_position_embeddings", 1, k_most_tokens);
  if (!document.failed() && rotation.high_frequency_factor <= rotation.low_frequency_factor)
    document.report(reader.node(), "E0212",
                    fmt::format("\"high_freq_factor\" {} is not above \"low_freq_factor\" {}",
                                rotation.high_frequency_factor, rotation.low_frequency_factor));
}

/// Numbers above 0, as many as half a head has dimensions.
std::vector<double> factors_of(Document& document, ObjectReader& reader, char const* name,
                               std::int64_t head_size) {
  std::vector<double> result;
  auto const& items = reader.array(name);
  for (auto const& item : items)
    if ((item.is(json::Node::Kind::number) || item.is(json::Node::Kind::integer)) && item.as_double() > 0)
      result.push_back(item.as_double());
  if (!document.failed() &&
      (result.size() != items.size() || static_cast<std::int64_t>(result.size()) != head_size / 2))
    document.report(*reader.find(name), "E0212",
                    fmt::format("\"{}\" has {} numbers above 0, and half a head {} dimensions", name,
                                result.size(), head_size / 2));
  return result;
}

/// Where nothing is said, attention's factor follows from how much longer sequences may be than they were.
void read_longrope(Document& document, ObjectReader& model, ObjectReader& reader, DecoderConfig& config) {
  auto& rotation = config.rotation;
  rotation.short_factors = factors_of(document, reader, "short_factor", config.layer.head_dim);
  rotation.long_factors = factors_of(document, reader, "long_factor", config.layer.head_dim);
  // Phi 3's configs have it beside "rope_scaling", newer ones within.
  constexpr char const* k_original = "original_max_position_embeddings";
  auto const beside = model.integer_or(k_original, 0, 1, k_most_tokens);
  rotation.original_positions = beside > 0 ? reader.integer_or(k_original, beside, 1, k_most_tokens)
                                           : reader.integer(k_original, 1, k_most_tokens);
  if (document.failed()) return;
  auto const original = static_cast<double>(rotation.original_positions);
  double const longer =
      reader.number_or("factor", std::max(static_cast<double>(config.positions) / original, 1.0), 1, k_most);
  double const usual = longer > 1 && original > 1 ? std::sqrt(1 + std::log(longer) / std::log(original)) : 1;
  rotation.attention_factor = reader.number_or("attention_factor", usual, 0, k_most);
}

/// "rope_scaling" and the same in newer configs, "rope_parameters", which also has theta.
void read_rotation(Document& document, ObjectReader& model, DecoderConfig& config) {
  auto& rotation = config.rotation;
  rotation.theta = model.number_or("rope_theta", rotation.theta, 0, k_most);
  for (auto const* name : {"rope_scaling", "rope_parameters"}) {
    auto const* object = model.object_or(name);
    if (object == nullptr) continue;
    ObjectReader reader(document, *object, fmt::format("\"{}\"", name));
    rotation.theta = reader.number_or("rope_theta", rotation.theta, 0, k_most);
    json::check_whole_rotation(document, reader);
    auto const type = reader.string_or("rope_type", reader.string_or("type", "default"));
    if (type == "llama3")
      read_llama3(document, reader, rotation);
    else if (type == "longrope" || type == "su")
      read_longrope(document, model, reader, config);
    else if (type != "default")
      document.report(*object, "E0214",
                      fmt::format("positions scaled by \"{}\" are not supported", type.substr(0, 60)),
                      {"supported: default, llama3 and longrope"});
  }
  json::check_whole_rotation(document, model);
}

/// Layers in turns would need more than the first one with a window.
void read_windowed_layers(Document& document, ObjectReader& model, DecoderConfig& config) {
  auto const windows = json::read_windows(document, model, config.layer.type);
  config.window_from = windows.from;
  if (windows.in_turns)
    document.report(json::place_of(document, model, "layer_types"), "E0214",
                    "layers with windows before layers without are not supported",
                    {"supported: \"full_attention\" up to a layer, and \"sliding_attention\" behind it"});
}

void read_llama(Document& document, ObjectReader& model, DecoderConfig& config) {
  config.layers = model.integer("num_hidden_layers", 1, k_most_layers);
  config.positions = model.integer_or("max_position_embeddings", 0, 1, k_most_tokens);
  // What classes have of their own.
  auto const& type = config.layer.type;
  bool const ernie = type == "ernie4_5", helium = type == "helium";
  if (type == "phi3" || ernie) config.norm_epsilon = 1e-5;
  if (helium) config.norm_epsilon = 1e-8;
  if (ernie) config.rotation.theta = 500000;
  if (helium) config.rotation.theta = 100000;
  config.rotation.interleaved = ernie || helium;
  config.norm_epsilon = model.number_or("rms_norm_eps", config.norm_epsilon, 0, 1);
  config.tied = model.boolean_or("tie_word_embeddings", ernie);
  config.attention_bias = model.boolean_or(ernie ? "use_bias" : "attention_bias", false);
  config.mlp_bias = model.boolean_or(ernie ? "use_bias" : "mlp_bias", false);
  config.activation = model.string_or("hidden_act", "silu");
  read_windowed_layers(document, model, config);
  read_rotation(document, model, config);
}

/// All of its products have biases.
void read_gpt2(Document& document, ObjectReader& model, DecoderConfig& config) {
  constexpr std::int64_t k_layers = 12, k_positions = 1024;
  constexpr double k_epsilon = 1e-5;
  config.layers = model.integer_or("n_layer", k_layers, 1, k_most_layers);
  config.positions = model.integer_or("n_positions", k_positions, 1, k_most_tokens);
  config.norm_epsilon = model.number_or("layer_norm_epsilon", k_epsilon, 0, 1);
  config.tied = model.boolean_or("tie_word_embeddings", true);
  config.attention_bias = config.mlp_bias = true;
  config.activation = model.string_or("activation_function", "gelu_new");
  for (auto const& [name, usual] : {std::pair{"scale_attn_weights", true},
                                    {"scale_attn_by_inverse_layer_idx", false},
                                    {"add_cross_attention", false}})
    if (model.boolean_or(name, usual) != usual)
      document.report(*model.find(name), "E0214",
                      fmt::format("\"{}\" {} is not supported", name, usual ? "false" : "true"));
}

}  // namespace

Expected<DecoderConfig> import_hf_decoder(std::string_view text, std::string const& file) {
  auto parsed = Document::parse(text, file, k_codes);
  if (!parsed) return tl::make_unexpected(parsed.error());
  auto& document = *parsed;
  auto const shape = json::read_shape(document);
  if (!shape) return document.refusal();
  static std::vector<std::string> const known{"llama", "mistral",  "qwen2",  "qwen3",
                                              "phi3",  "ernie4_5", "helium", "gpt2"};
  if (std::find(known.begin(), known.end(), shape->type) == known.end()) {
    document.report(*json::language_model(document).find("model_type"), "E0214",
                    fmt::format("whole decoders of model_type \"{}\" are not supported", shape->type),
                    {"supported: " + list_of(known)});
    return document.refusal();
  }
  static json::TypesTaken const taken{{"float16", "bfloat16", "float32"},
                                      "name a folder with the weights as BF16, F16 or F32",
                                      "leave out the one that is wrong"};
  json::weights_type(document, taken);
  DecoderConfig config;
  config.layer = *shape;
  config.file = file;
  ObjectReader model(document, json::language_model(document), "the config");
  config.vocabulary = model.integer("vocab_size", 1, k_most_tokens);
  if (shape->type == "gpt2")
    read_gpt2(document, model, config);
  else
    read_llama(document, model, config);
  for (auto const* name : {"model_type",
                           "hidden_size",
                           "intermediate_size",
                           "num_attention_heads",
                           "num_key_value_heads",
                           "head_dim",
                           "vocab_size",
                           "num_hidden_layers",
                           "rms_norm_eps",
                           "rope_theta",
                           "sliding_window",
                           "max_window_layers",
                           "attention_bias",
                           "mlp_bias",
                           "use_bias",
                           "hidden_act",
                           "n_embd",
                           "n_inner",
                           "n_head",
                           "n_layer",
                           "n_positions",
                           "layer_norm_epsilon",
                           "activation_function"})
    if (auto const* const member = model.find(name); member != nullptr) config.lines[name] = member->line;
  if (document.failed()) return document.refusal();
  return config;
}

}  // namespace tessera
