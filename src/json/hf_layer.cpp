// SPDX-License-Identifier: Apache-2.0
// Whole layers: which models have them as kernels/decode runs them, and their operators.
#include <fmt/format.h>

#include <algorithm>

#include "diagnostic/nearest.hpp"
#include "json/hf_blocks.hpp"
#include "json/hf_family.hpp"

namespace tessera::json {
namespace {

/// All layers read these as they are.
bool is_shared(std::string const& buffer) {
  return buffer == "turns" || buffer == "positions" || buffer == "offsets" || buffer == "lengths";
}

/// Of the stream of residuals: `stream` is an operator's output, or "x" from outside.
Operator norm_of(std::string name, std::int64_t rows, std::int64_t columns, std::string const& producer,
                 bool shifted) {
  auto const buffer = producer.empty() ? "x" : producer;
  Operator norm{std::move(name), OperatorKind::norm, Epilogue::none, rows, columns, 1, 1, {}, "", {}};
  norm.inputs.push_back({"a", buffer, producer, ReadPattern::rows});
  if (shifted) norm.inputs.push_back({"shift", "shift_" + norm.name, "", ReadPattern::rows});
  return norm;
}

/// `placed`: each row says its position.
Operator turned(Operator const& qkv, AttentionShape const& a, LayerParts const& parts, bool placed) {
  Operator turn{"turn", OperatorKind::turn_heads, Epilogue::none, qkv.m, qkv.n, a.head_dim, 1, {}, "", {}};
  turn.inputs.push_back({"a", qkv.name, qkv.name, ReadPattern::rows});
  if (parts.turns) turn.inputs.push_back({"turns", "turns", "", ReadPattern::rows});
  if (parts.turns && placed) turn.inputs.push_back({"positions", "positions", "", ReadPattern::rows});
  if (parts.qkv_biases) turn.inputs.push_back({"shift", "shift_qkv", "", ReadPattern::rows});
  return turn;
}

/// Lets `op` read from `producer` what it read from outside or from another operator as `buffer`.
void read_instead(Operator& op, std::string const& buffer, std::string const& producer) {
  for (auto& input : op.inputs)
    if (input.buffer == buffer) input.buffer = input.producer = producer;
}

void add_residual(Operator& product, std::string const& producer) {
  product.epilogue = Epilogue::residual;
  if (producer.empty())
    product.inputs.push_back({"residual", "x", "", ReadPattern::rows});
  else
    product.inputs.push_back({"residual", producer, producer, ReadPattern::same_tile});
}

}  // namespace

LayerParts read_layer(Document& document, TransformerShape const& shape) {
  static std::vector<std::string> const known{"llama", "mistral", "qwen2", "qwen3", "phi3", "gpt2"};
  constexpr std::int64_t k_most_read = 1 << 16;
  constexpr char const* k_parts = "--block fused_attention and --block mlp plan its parts";
  ObjectReader model(document, language_model(document), "the config");
  if (std::find(known.begin(), known.end(), shape.type) == known.end()) {
    document.report(*model.find("model_type"), "E0214",
                    fmt::format("layers of model_type \"{}\" are not described whole", shape.type),
                    {"described: " + list_of(known)}, k_parts);
    return {};
  }
  LayerParts parts;
  bool const gpt2 = shape.type == "gpt2";
  parts.turns = !gpt2;
  // Families whose queries, keys and values have biases do not say so.
  bool const says = shape.type == "llama" || shape.type == "qwen3" || shape.type == "phi3";
  bool const biases = says && model.boolean_or("attention_bias", false);
  parts.qkv_biases = gpt2 || shape.type == "qwen2" || biases;
  parts.output_biases = gpt2 || biases;
  parts.down_biases = gpt2;
  if (!gpt2 && model.boolean_or("mlp_bias", false))
    document.report(*model.find("mlp_bias"), "E0214",
                    "layers are not described whole whose MLP has biases and gates", {}, k_parts);
  parts.layers = model.integer_or(gpt2 ? "n_layer" : "num_hidden_layers", 0, 0, k_most_read);
  check_whole_rotation(document, model);
  for (auto const* name : {"rope_scaling", "rope_parameters"})
    if (auto const* object = model.object_or(name); object != nullptr) {
      ObjectReader reader(document, *object, fmt::format("\"{}\"", name));
      check_whole_rotation(document, reader);
    }
  return parts;
}

namespace {

std::vector<Operator> one_layer(TransformerShape const& model, LayerParts const& parts,
                                AttentionShape const& a, std::vector<std::int64_t> const& prompts,
                                std::int64_t inner) {
  auto block = fused_attention_operators(model, a, prompts);
  auto const rows = block.front().m;
  auto mlp = mlp_operators(model, {rows, inner});
  auto &qkv = block[0], &attention = block[1], &output = block[2], &first = mlp[0], &down = mlp[1];
  auto const before = norm_of("attention_norm", rows, model.hidden, "", parts.down_biases);
  auto const between = norm_of("mlp_norm", rows, model.hidden, output.name, parts.output_biases);
  auto const turn = turned(qkv, a, parts, !prompts.empty());
  read_instead(qkv, "x", before.name);
  read_instead(attention, qkv.name, turn.name);
  add_residual(output, "");
  read_instead(first, "x", between.name);
  add_residual(down, output.name);
  return {before, qkv, turn, attention, output, between, first, down};
}

/// Names of layer `index`, which reads the stream of residuals that `stream` has made, or "x".
void number(std::vector<Operator>& layer, std::int64_t index, std::string const& stream) {
  auto const ending = fmt::format("_{}", index);
  for (auto& op : layer) {
    op.name += ending;
    for (auto& input : op.inputs) {
      if (!input.producer.empty()) {
        input.producer += ending, input.buffer += ending;
      } else if (input.buffer != "x") {
        if (!is_shared(input.buffer)) input.buffer += ending;
      } else if (!stream.empty()) {
        input.buffer = input.producer = stream;
        if (input.name == "residual") input.pattern = ReadPattern::same_tile;
      }
    }
  }
}

}  // namespace

std::vector<Operator> layer_operators(TransformerShape const& model, LayerParts const& parts,
                                      AttentionShape const& a, std::vector<std::int64_t> const& prompts,
                                      std::int64_t inner, std::int64_t layers) {
  auto const layer = one_layer(model, parts, a, prompts, inner);
  if (layers == 1) return layer;
  std::vector<Operator> all;
  for (std::int64_t index = 0; index < layers; ++index) {
    auto next = layer;
    number(next, index, all.empty() ? std::string() : all.back().name);
    all.insert(all.end(), next.begin(), next.end());
  }
  return all;
}

}  // namespace tessera::json
