// SPDX-License-Identifier: Apache-2.0
// Convolution networks as layers of equal convolutions (schema workloads/conv_network.schema.json).
#include <fmt/format.h>

#include <optional>
#include <set>

#include "describe/operator_check.hpp"
#include "diagnostic/nearest.hpp"
#include "json/reader.hpp"
#include "json/workload_parts.hpp"
#include "tessera/describe/workload_json.hpp"

namespace tessera {
namespace {

using json::Document;
using json::ObjectReader;

constexpr json::Codes k_codes{"E0201", "E0202", "E0203", "E0204"};
constexpr char const* k_schema = "tessera.conv_network/1";

struct Layer {
  std::string name;
  ConvShape shape;
  std::int64_t convolutions = 1;
  SourceLine where;
};

/// The first of them.
constexpr std::size_t k_most_names = 170;

std::string shown(std::vector<std::string> names) {
  constexpr std::size_t k_most = 40;
  if (names.empty()) return "none";
  if (names.size() <= k_most) return list_of(names);
  auto const others = names.size() - k_most;
  names.resize(k_most);
  names.push_back(fmt::format("{} more", others));
  return list_of(names);
}

Layer read_layer(Document& document, json::Node const& node) {
  constexpr std::int64_t k_most = 1 << 20;
  ObjectReader reader(document, node, "a layer");
  Layer layer;
  layer.where = document.at(node);
  layer.name = reader.string("name");
  json::check_name(document, reader, "a layer");
  reader.rename(fmt::format("layer \"{}\"", layer.name.substr(0, 60)));
  layer.shape.p = reader.integer("p", 1, k_most);
  layer.shape.q = reader.integer("q", 1, k_most);
  layer.shape.channels = reader.integer("channels", 1, k_most);
  layer.shape.r = reader.integer_or("r", 3, 1, 31);
  layer.shape.s = reader.integer_or("s", 3, 1, 31);
  layer.convolutions = reader.integer_or("convs", 2, 1, 64);
  reader.integer_or("layers", 1, 1, k_most);  // how often the network repeats it: for whole-model times
  reader.finish();
  return layer;
}

}  // namespace

Expected<OperatorGraph> import_conv_network(std::string_view text, std::string const& file,
                                            ConvOptions const& options) {
  auto parsed = Document::parse(text, file, k_codes);
  if (!parsed) return tl::make_unexpected(parsed.error());
  auto& document = *parsed;
  ObjectReader root(document, document.root(), "the network");
  auto const schema = root.string("schema");
  if (!document.failed() && schema != k_schema)
    document.report(*root.find("schema"), "E0205",
                    fmt::format("schema \"{}\" is not \"{}\"", schema.substr(0, 60), k_schema));
  json::check_name(document, root, "the network");
  auto const name = root.string_or("name", json::stem_of(file));
  auto const type = root.choice_or("data_type", ElementType::fp16, {"fp16", "bf16"},
                                   {ElementType::fp16, ElementType::bf16});
  std::vector<Layer> layers;
  std::set<std::string> known;
  for (auto const& node : root.array("layers")) {
    layers.push_back(read_layer(document, node));
    if (auto const& layer = layers.back().name; !known.insert(layer).second)
      document.report(node, k_codes.value, fmt::format("two layers are named \"{}\"", layer.substr(0, 60)));
  }
  root.finish();
  if (document.failed()) return document.refusal();

  std::vector<std::string> names;
  std::optional<Layer> chosen;
  for (auto const& layer : layers) {
    names.push_back(layer.name);
    if (layer.name == options.layer) chosen = layer;
  }
  if (!chosen) {
    auto const message = options.layer.empty()
                             ? std::string("no layer is named")
                             : fmt::format("there is no layer \"{}\"", options.layer.substr(0, 60));
    document.report(document.root(), "E0220", message, {"layers: " + shown(names)},
                    did_you_mean(options.layer, names));
    return document.refusal();
  }
  // They make the name of what is imported, which has to be a workload's.
  if (auto const both = name.size() + chosen->name.size(); both > k_most_names)
    return refuse(
        Diagnostic{k_codes.value,
                   Severity::error,
                   chosen->where,
                   fmt::format("the names of the network and of a layer have {} bytes together", both),
                   {},
                   fmt::format("take names of up to {} bytes together", k_most_names)});
  if (options.images < 1 || options.images > 1 << 20) {
    Diagnostic problem;  // an option's fault, not the file's
    problem.code = "E0216";
    problem.message = fmt::format("images must be between 1 and {}, not {}", 1 << 20, options.images);
    return refuse(std::move(problem));
  }

  OperatorGraph graph;
  graph.name = fmt::format("{} {}, {} {}", name, chosen->name, options.images,
                           options.images == 1 ? "image" : "images");
  graph.where = chosen->where;
  graph.type = type;
  graph.conv = chosen->shape;
  graph.conv.images = options.images;
  auto const& shape = graph.conv;
  for (std::int64_t i = 1; i <= chosen->convolutions; ++i) {
    Operator op;
    op.name = fmt::format("conv{}", i);
    op.kind = OperatorKind::conv2d;
    op.m = shape.images * shape.p * shape.q;
    op.n = shape.channels;
    op.k = shape.channels * shape.r * shape.s;
    auto const before = fmt::format("conv{}", i - 1);
    op.inputs = {i == 1 ? OperatorInput{"a", "x", "", ReadPattern::conv_halo}
                        : OperatorInput{"a", before, before, ReadPattern::conv_halo},
                 {"b", fmt::format("w{}", i), "", ReadPattern::rows}};
    op.where = chosen->where;
    graph.operators.push_back(std::move(op));
  }
  if (auto problems = problems_of(graph); !problems.empty()) return tl::make_unexpected(std::move(problems));
  return graph;
}

}  // namespace tessera
