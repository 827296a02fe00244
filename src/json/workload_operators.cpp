// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "describe/layer_operators.hpp"
#include "describe/names.hpp"
#include "describe/operator_check.hpp"
#include "json/policy_json.hpp"
#include "json/workload_read.hpp"

namespace tessera::json {
namespace {

/// A product: a table names tiles, and how an operator is cut is the planner's choice.
NamedPolicy read_product(Document& document, Node const& node, std::vector<Operator> const& before,
                         std::string const& producer) {
  std::size_t rank = 2;
  for (auto const& op : before)
    if (op.name == producer && op.batch > 1) rank = 3;
  auto policy = read_policy(document, node, rank, producer);
  if (producer.empty())
    document.report(
        node, document.codes().value,
        "a policy says which tiles of a producer share a semaphore, and this input has no producer", {},
        "leave the policy out, or name the producer");
  if (policy.map.is_table())
    document.report(node, document.codes().value,
                    "a table of tiles cannot be the policy of an operator's input", {},
                    "say what neighbours share along rows and columns, or describe the tiles (\"stages\")");
  return policy;
}

/// Nothing of it is left where no stage wrote the buffer: caches of keys and values and images have their
/// costs, and a gated pair is twice as wide.
bool is_between_tiles(ReadPattern pattern) {
  return pattern == ReadPattern::query_heads || pattern == ReadPattern::same_batch_rows ||
         pattern == ReadPattern::heads_to_columns || pattern == ReadPattern::same_tile;
}

OperatorInput read_input(Document& document, Node const& node, std::string const& owner,
                         std::vector<Operator> const& before) {
  ObjectReader reader(document, node, "an input of " + owner);
  OperatorInput input;
  input.name = reader.string("name");
  reader.rename(fmt::format("input \"{}\" of {}", input.name.substr(0, 60), owner));
  input.producer = reader.string_or("producer", "");
  // An operator's output buffer has the operator's name unless it is given another.
  input.buffer =
      input.producer.empty() ? reader.string("buffer") : reader.string_or("buffer", input.producer);
  input.pattern =
      reader.choice_or("pattern", ReadPattern::rows, read_patterns().words, read_patterns().values);
  if (auto const* policy = reader.object_or("policy"); policy != nullptr)
    input.policy = read_product(document, *policy, before, input.producer);
  if (input.producer.empty() && is_between_tiles(input.pattern))
    document.report(
        *reader.find("pattern"), document.codes().value,
        fmt::format("\"{}\" says how tiles of a producer are read, and this input has no producer",
                    read_patterns().word_of(input.pattern)),
        {}, "leave the pattern out, or name the producer");
  reader.finish();
  if (!document.failed() && !is_identifier(input.name))
    document.report(node, "E0207",
                    fmt::format("\"{}\" cannot name an input of {}", input.name.substr(0, 60), owner), {},
                    name_hint(input.name));
  return input;
}

Operator read_operator(Document& document, Node const& node, std::vector<Operator> const& before) {
  ObjectReader reader(document, node, "an operator");
  Operator op;
  op.where = document.at(node);
  op.name = reader.string("name");
  reader.rename(fmt::format("operator \"{}\"", op.name.substr(0, 60)));
  op.kind = reader.choice("kind", operator_kinds().words, operator_kinds().values);
  op.epilogue = reader.choice_or("epilogue", Epilogue::none, epilogues().words, epilogues().values);
  op.m = reader.integer("m", 1, k_largest_size);
  op.n = reader.integer("n", 1, k_largest_size);
  bool const has_depth = op.kind == OperatorKind::gemm || op.kind == OperatorKind::conv2d ||
                         op.kind == OperatorKind::attention || op.kind == OperatorKind::turn_heads;
  op.k = has_depth ? reader.integer("k", 1, k_largest_size) : reader.integer_or("k", 1, 1, k_largest_size);
  op.batch = reader.integer_or("batch", 1, 1, k_largest_size);
  for (auto const& rows : reader.array_or("groups")) {
    if (rows.is(Node::Kind::integer) && rows.integer >= 1 && rows.integer <= k_largest_size)
      op.groups.push_back(rows.integer);
    else
      document.report(rows, document.codes().value,
                      fmt::format("a group of {} is a number of rows, 1 or more", op.name), {},
                      "leave empty groups out");
  }
  op.output = reader.string_or("output", "");
  for (auto const& input : reader.array_or("inputs"))
    op.inputs.push_back(
        read_input(document, input, fmt::format("operator \"{}\"", op.name.substr(0, 60)), before));
  reader.finish();
  if (!document.failed() && !is_identifier(op.name))
    document.report(node, "E0207", fmt::format("\"{}\" cannot name an operator", op.name.substr(0, 60)), {},
                    name_hint(op.name));
  return op;
}

/// A buffer from outside that two operators read in two sizes.
void check_sizes(Document& document, Node const& operators, OperatorGraph const& graph) {
  struct First {
    double elements;
    std::string reader;
  };
  std::map<std::string, First> known;
  for (std::size_t i = 0; i < graph.operators.size(); ++i)
    for (auto const& input : graph.operators[i].inputs) {
      auto const& name = graph.operators[i].name;
      auto const matrix = outside_matrix(graph, graph.operators[i], input);
      if (!matrix) continue;
      auto const elements = static_cast<double>(matrix->rows) * static_cast<double>(matrix->columns) *
                            static_cast<double>(matrix->batch);
      auto const [first, is_new] = known.try_emplace(input.buffer, First{elements, name});
      if (is_new || std::abs(first->second.elements - elements) <= 1e-12 * elements) continue;
      document.report(operators.items()[i], document.codes().value,
                      fmt::format("buffer \"{}\" has {:.0f} elements for {}, and {:.0f} for {}",
                                  input.buffer.substr(0, 60), first->second.elements, first->second.reader,
                                  elements, name),
                      {}, "give the operators the same sizes, or two buffers");
    }
}

/// Sizes that nobody asks for.
void check_use(Document& document, ObjectReader& root, char const* member, bool used, char const* who) {
  if (auto const* node = root.find(member); node != nullptr && !used)
    document.report(*node, document.codes().value, fmt::format("no operator has a use for \"{}\"", member),
                    {fmt::format("it is of {}", who)}, "leave it out");
}

}  // namespace

void read_operators(Document& document, ObjectReader& root, OperatorGraph& graph) {
  graph.type = root.choice_or("type", ElementType::bf16, element_types().words, element_types().values);
  auto const bytes = bytes_of(graph.type);
  graph.element_bytes = static_cast<int>(root.integer_or("element_bytes", bytes, 1, 16));
  if (graph.element_bytes != bytes)
    document.report(*root.find("element_bytes"), document.codes().value,
                    fmt::format("\"element_bytes\" is {}, and elements of {} have {}", graph.element_bytes,
                                to_text(graph.type), bytes),
                    {}, "leave it out: \"type\" says it");
  if (auto const* node = root.object_or("attention"); node != nullptr) {
    ObjectReader reader(document, *node, "\"attention\"");
    auto& a = graph.attention;
    a.sequences = reader.integer_or("sequences", 1, 1, k_largest_size);
    a.tokens = reader.integer("tokens", 1, k_largest_size);
    a.cached = reader.integer_or("cached", 0, 0, k_largest_size);
    a.query_heads = reader.integer("query_heads", 1, k_largest_size);
    a.kv_heads = reader.integer_or("kv_heads", a.query_heads, 1, k_largest_size);
    a.head_dim = reader.integer("head_dim", 1, k_largest_size);
    a.causal = reader.boolean_or("causal", false);
    a.window = reader.integer_or("window", 0, 0, k_largest_size);
    reader.finish();
  }
  if (auto const* node = root.object_or("conv"); node != nullptr) {
    ObjectReader reader(document, *node, "\"conv\"");
    auto& c = graph.conv;
    c.images = reader.integer_or("images", 1, 1, k_largest_size);
    c.p = reader.integer("p", 1, k_largest_size);
    c.q = reader.integer("q", 1, k_largest_size);
    c.channels = reader.integer("channels", 1, k_largest_size);
    c.r = reader.integer_or("r", 3, 1, k_largest_size);
    c.s = reader.integer_or("s", 3, 1, k_largest_size);
    reader.finish();
  }
  for (auto const& node : root.array("operators"))
    graph.operators.push_back(read_operator(document, node, graph.operators));
  if (document.failed()) return;
  auto const any = [&](bool (*is)(Operator const&)) {
    return std::any_of(graph.operators.begin(), graph.operators.end(), is);
  };
  check_use(document, root, "attention", any(reads_heads), "inputs that read heads by their pattern");
  check_use(document, root, "conv", any(convolves), "convolutions, and inputs of pattern conv_halo");
  check_sizes(document, *root.find("operators"), graph);
}

}  // namespace tessera::json
