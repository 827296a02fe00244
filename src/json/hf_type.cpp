// SPDX-License-Identifier: Apache-2.0
#include "json/hf_type.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "diagnostic/nearest.hpp"
#include "json/hf_family.hpp"

namespace tessera::json {
namespace {

struct SaidType {
  Node const* node = nullptr;  ///< where; null: nowhere
  std::string type;
};

/// What one object says of its weights by either of two names. E0214 where they say different things and it
/// counts: `taken` is there.
SaidType said_type(Document& document, Node const& object, TypesTaken const* taken) {
  constexpr char const* k_old_name = "torch_dtype";
  constexpr char const* k_new_name = "dtype";
  ObjectReader reader(document, object, "the config");
  SaidType said;
  for (auto const* name : {k_old_name, k_new_name}) {
    auto const* node = reader.find(name);
    if (node == nullptr || node->is(Node::Kind::null)) continue;
    auto const type = plain_type(reader.string_or(name, ""));
    if (said.node == nullptr)
      said = {node, type};
    else if (taken != nullptr && type != said.type)
      document.report(*node, "E0214",
                      fmt::format("\"{}\" says that weights are of type \"{}\", and \"{}\" \"{}\"",
                                  k_new_name, type.substr(0, 60), k_old_name, said.type.substr(0, 60)),
                      {}, taken->which);
  }
  return said;
}

SaidType said_type(Document& document, TypesTaken const* taken) {
  auto const& root = document.root();
  auto const& inner = language_model(document);
  auto said = said_type(document, root, taken);
  if (&inner != &root) {
    auto of_inner = said_type(document, inner, taken);
    if (said.node == nullptr)
      said = std::move(of_inner);
    else if (taken != nullptr && of_inner.node != nullptr && of_inner.type != said.type)
      document.report(*of_inner.node, "E0214",
                      fmt::format("the language model's weights are of type \"{}\", and the whole model's "
                                  "of type \"{}\"",
                                  of_inner.type.substr(0, 60), said.type.substr(0, 60)),
                      {}, taken->which);
  }
  if (said.node == nullptr) said.type = "float16";
  return said;
}

void report_quantized(Document& document, TypesTaken const& taken) {
  for (auto const* object : {&document.root(), &language_model(document)}) {
    // Of transformers, of its compressed tensors before they had that name, and of MLX.
    for (auto const* name : {"quantization_config", "compression_config", "quantization"})
      if (auto const* quantized = object->find(name);
          quantized != nullptr && !quantized->is(Node::Kind::null) && !document.failed())
        document.report(*quantized, "E0214", "quantized weights are not supported",
                        {"supported: " + list_of(taken.types)}, taken.way_out);
  }
}

}  // namespace

std::string plain_type(std::string word) {
  if (word.rfind("torch.", 0) == 0) word.erase(0, 6);
  if (word == "bf16") return "bfloat16";
  if (word == "float" || word == "fp32") return "float32";
  return word == "fp16" || word == "half" ? "float16" : word;
}

std::string weights_type(Document& document, TypesTaken const& taken) {
  auto const said = said_type(document, &taken);
  if (document.failed()) return said.type;
  auto const& types = taken.types;
  if (std::find(types.begin(), types.end(), said.type) == types.end())
    document.report(said.node != nullptr ? *said.node : document.root(), "E0214",
                    fmt::format("weights of type \"{}\" are not supported", said.type.substr(0, 60)),
                    {"supported: " + list_of(types)}, taken.way_out);
  report_quantized(document, taken);
  return said.type;
}

void check_type_words(Document& document) { said_type(document, nullptr); }

}  // namespace tessera::json
