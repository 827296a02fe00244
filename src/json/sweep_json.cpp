// SPDX-License-Identifier: Apache-2.0
#include "tessera/sweep/sweep_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "json/json_text.hpp"
#include "json/reader.hpp"
#include "sweep/row_check.hpp"

namespace tessera {
namespace {

using json::Document;
using json::ObjectReader;

constexpr char const* k_schema = "tessera.sweep/1";
constexpr json::Codes k_codes{"E0923", "E0923", "E0923", "E0923"};

/// Values by which a row is read again are texts; numbers stand as numbers where that loses nothing.
nlohmann::ordered_json cell(std::string const& text) {
  if (text.empty()) return nullptr;
  if (text == "true" || text == "false") return text == "true";
  auto const number = number_of(text);
  if (!number || number_text(*number) != text) return text;
  if (std::abs(*number) >= 1e15) return *number;
  auto const whole = static_cast<std::int64_t>(*number);
  if (std::to_string(whole) == text) return whole;
  return *number;
}

std::string text_of(json::Node const& node) {
  using Kind = json::Node::Kind;
  if (node.is(Kind::boolean)) return node.integer != 0 ? "true" : "false";
  if (node.is(Kind::integer) || node.is(Kind::number)) return number_text(node.as_double());
  return node.text();
}

/// Tables are printed on terminals; only line breaks may stand in them.
bool is_plain(std::string const& text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) >= 0x20 || c == '\n') && c != 0x7f;
  });
}

std::vector<std::string> names(Document& document, std::vector<json::Node> const& nodes) {
  std::vector<std::string> out;
  for (auto const& node : nodes) {
    if (node.text().empty() || !is_plain(node.text()))
      document.report(node, k_codes.value, "a column's name must be a string without control characters");
    out.push_back(node.text());
  }
  return out;
}

/// Cells of a row's member, one for each column.
std::vector<std::string> cells(Document& document, ObjectReader& row, char const* name, std::size_t columns) {
  std::vector<std::string> out;
  for (auto const& node : row.array(name)) {
    using Kind = json::Node::Kind;
    if (node.is(Kind::array) || node.is(Kind::object) || !is_plain(node.text()))
      document.report(node, k_codes.value,
                      "a cell must be a number, true, false, null or a string without control characters");
    out.push_back(text_of(node));
  }
  if (out.size() != columns && row.has(name))
    document.report(*row.find(name), k_codes.value, "a row has as many cells as there are columns");
  return out;
}

}  // namespace

std::string print_sweep_json(SweepTable const& table) {
  nlohmann::ordered_json root = {{"schema", k_schema},
                                 {"sweep", table.sweep},
                                 {"points", table.points},
                                 {"axes", table.axes},
                                 {"results", table.results}};
  root["rows"] = nlohmann::ordered_json::array();
  for (auto const& row : table.rows) {
    nlohmann::ordered_json entry = {{"point", row.point + 1}, {"inputs", row.inputs}};
    entry["values"] = nlohmann::ordered_json::array();
    for (auto const& value : row.values) entry["values"].push_back(cell(value));
    if (!row.refused.empty()) entry["refused"] = row.refused;
    entry["results"] = nlohmann::ordered_json::array();
    for (auto const& result : row.results) entry["results"].push_back(cell(result));
    root["rows"].push_back(std::move(entry));
  }
  return json::pretty(root);
}

Expected<SweepTable> parse_sweep_json(std::string_view text, std::string const& file,
                                      SweepRules const& rules) {
  auto document = Document::parse(text, file, k_codes);
  if (!document) return tl::make_unexpected(document.error());
  ObjectReader root(*document, document->root());
  auto const schema = root.string("schema");
  if (!schema.empty() && schema != k_schema)
    document->report(document->root(), k_codes.value, "this is no table of a sweep", {},
                     "remove it, or name another file");
  if (document->failed()) return document->refusal();
  SweepTable table;
  constexpr std::int64_t most = k_most_points;
  table.sweep = root.string("sweep");
  table.points = static_cast<std::size_t>(root.integer("points", 0, most));
  table.axes = names(*document, root.array("axes"));
  table.results = names(*document, root.array("results"));
  auto const& rows = root.array("rows");
  if (!document->failed() && !rows.empty() && !is_fingerprint(table.sweep))
    document->report(*root.find("sweep"), k_codes.value, "\"sweep\" must be 16 hexadecimal digits");
  RowCheck check(table, rules);
  for (auto const& node : rows) {
    ObjectReader reader(*document, node, "a row");
    SweepRow row;
    row.point = static_cast<std::size_t>(reader.integer("point", 1, most)) - 1;
    row.inputs = reader.string("inputs");
    row.values = cells(*document, reader, "values", table.axes.size());
    row.refused = reader.string_or("refused", "");
    row.results = cells(*document, reader, "results", table.results.size());
    reader.finish();
    if (document->failed()) return document->refusal();
    if (row.point >= table.points)
      document->report(node, k_codes.value, "a row's point is beyond the sweep's last");
    if (auto const wrong = check.problem(row); !wrong.empty())
      document->report(node, k_codes.value, "this is no table of a sweep: " + wrong, {},
                       "remove it, or name another file");
    table.rows.push_back(std::move(row));
  }
  root.finish();
  if (document->failed()) return document->refusal();
  return table;
}

}  // namespace tessera
