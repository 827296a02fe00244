// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "json/reader.hpp"
#include "tessera/document.hpp"

namespace tessera {
namespace {

using json::Node;

constexpr json::Codes k_codes{"E0904", "E0904", "E0904", "E0904"};

struct Prefix {
  char const* text;
  DocumentKind kind;
};
constexpr Prefix k_schemas[] = {
    {"tessera.workload/", DocumentKind::workload}, {"tessera.conv_network/", DocumentKind::conv_network},
    {"tessera.plan/", DocumentKind::plan},         {"tessera.timeline/", DocumentKind::timeline},
    {"tessera.machine/", DocumentKind::machine},   {"tessera.study/", DocumentKind::study},
    {"tessera.roles/", DocumentKind::roles},       {"tessera.sweep/", DocumentKind::sweep},
    {"tessera.probe/", DocumentKind::probe},       {"tessera.tune/", DocumentKind::tune_cache},
    {"tessera-record/", DocumentKind::record}};

std::string shown(Node const* node) {
  if (!node) return "";
  if (node->is(Node::Kind::integer)) return std::to_string(node->integer);
  if (node->is(Node::Kind::string)) return node->text();
  return "";
}

/// The first of several spellings (llama's and gpt2's) that the config has.
void add_fact(DocumentSummary& summary, Node const& root, char const* what,
              std::vector<char const*> const& members) {
  for (auto const* member : members)
    if (auto text = shown(root.find(member)); !text.empty()) {
      summary.facts.emplace_back(what, std::move(text));
      return;
    }
}

}  // namespace

Expected<DocumentSummary> summarize_document(std::string_view text, std::string const& file) {
  auto const document = json::Document::parse(text, file, k_codes);
  if (!document) return tl::make_unexpected(document.error());
  auto const& root = document->root();
  DocumentSummary summary;
  if (auto const* schema = root.find("schema")) {
    summary.schema = schema->text();
    for (auto const& known : k_schemas)
      if (summary.schema.rfind(known.text, 0) == 0) summary.kind = known.kind;
  } else if (auto const* type = root.find("model_type")) {
    summary.kind = DocumentKind::hf_config;
    summary.schema = type->text();
    add_fact(summary, root, "hidden", {"hidden_size", "n_embd"});
    add_fact(summary, root, "feed-forward", {"intermediate_size", "n_inner"});
    add_fact(summary, root, "heads", {"num_attention_heads", "n_head"});
    add_fact(summary, root, "KV heads", {"num_key_value_heads"});
    add_fact(summary, root, "layers", {"num_hidden_layers", "n_layer"});
    add_fact(summary, root, "type", {"torch_dtype", "dtype"});
  }
  if (summary.kind == DocumentKind::conv_network)
    if (auto const* layers = root.find("layers"))
      for (auto const& layer : layers->items())
        if (auto name = shown(layer.find("name")); !name.empty()) summary.layers.push_back(std::move(name));
  return summary;
}

}  // namespace tessera
