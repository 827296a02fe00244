// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "describe/operator_check.hpp"
#include "json/pipeline_json.hpp"
#include "json/workload_parts.hpp"
#include "json/workload_read.hpp"
#include "tessera/describe/workload_json.hpp"

namespace tessera {
namespace {

using json::Document;
using json::ObjectReader;

constexpr json::Codes k_codes{"E0201", "E0202", "E0203", "E0204"};
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

}  // namespace

Expected<Workload> parse_workload(std::string_view text, std::string const& file) {
  auto parsed = Document::parse(text, file, k_codes);
  if (!parsed) return tl::make_unexpected(parsed.error());
  auto& document = *parsed;
  ObjectReader root(document, document.root(), "the workload");
  if (document.failed()) return document.refusal();
  check_schema(document, root);
  json::check_name(document, root, "the workload");
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
    auto problems = problems_of(graph);
    if (problems.empty()) problems = problems_of_products(graph);
    if (!problems.empty()) return tl::make_unexpected(std::move(problems));
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
