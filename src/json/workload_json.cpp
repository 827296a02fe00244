// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "describe/operator_check.hpp"
#include "json/pipeline_json.hpp"
#include "json/workload_read.hpp"
#include "tessera/describe/workload_json.hpp"

namespace tessera {
namespace {

using json::Document;
using json::ObjectReader;

constexpr json::Codes k_codes{"E0201", "E0202", "E0203", "E0204"};
constexpr std::size_t k_longest_name = 200;
constexpr char const* k_schema = "tessera.workload/1";

/// E0205: not a workload, or one from the future.
void check_schema(Document& document, ObjectReader& root) {
  auto const* schema = root.find("schema");
  if (schema == nullptr) {
    document.report(document.root(), "E0205", fmt::format("\"schema\": \"{}\" is missing", k_schema), {},
                    root.has("model_type")
                        ? "this looks like a model's config.json: name a block of it (mlp, attention)"
                        : "");
    return;
  }
  if (schema->is(json::Node::Kind::string) && schema->text() == k_schema) return;
  bool const later = schema->text().rfind("tessera.workload/", 0) == 0;
  document.report(*schema, "E0205",
                  fmt::format("schema \"{}\" is not \"{}\"", schema->text().substr(0, 60), k_schema), {},
                  later ? "the file is for a newer Tessera" : "");
}

/// The name stands in headings, file comments and on terminals.
void check_name(Document& document, ObjectReader& root) {
  auto const* name = root.find("name");
  if (name == nullptr || !name->is(json::Node::Kind::string)) return;  // said by who reads it
  auto const& text = name->text();
  bool const control =
      std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (text.empty() || text.size() > k_longest_name || control)
    document.report(
        *name, "E0203",
        fmt::format("\"name\" of the workload must have 1 to {} bytes, none of them a control character",
                    k_longest_name));
}

}  // namespace

Expected<Workload> parse_workload(std::string_view text, std::string const& file) {
  auto parsed = Document::parse(text, file, k_codes);
  if (!parsed) return tl::make_unexpected(parsed.error());
  auto& document = *parsed;
  ObjectReader root(document, document.root(), "the workload");
  if (document.failed()) return document.refusal();
  check_schema(document, root);
  check_name(document, root);
  if (document.failed()) return document.refusal();

  bool const operators = root.has("operators");
  if (operators == root.has("stages")) {
    document.report(
        document.root(), "E0206",
        operators ? "a workload has either \"operators\" or \"stages\", not both"
                  : "a workload has either \"operators\" or \"stages\"",
        {"operators have sizes, and the planner tiles them; stages have grids of tiles that you fixed"});
    return document.refusal();
  }
  Workload workload;
  if (operators) {
    OperatorGraph graph;
    graph.name = root.string("name");
    graph.where = document.at(document.root());
    read_operators(document, root, graph);
    root.finish();
    if (document.failed()) return document.refusal();
    if (auto problems = problems_of(graph); !problems.empty())
      return tl::make_unexpected(std::move(problems));
    workload = std::move(graph);
  } else if (root.has("loop")) {
    workload = json::read_loop(document, document.root(), root);
  } else {
    workload = json::read_pipeline(document, document.root(), root);
  }
  if (document.failed()) return document.refusal();
  return workload;
}

}  // namespace tessera
