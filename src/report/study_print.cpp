// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "report/study_cells.hpp"
#include "report/text.hpp"
#include "tessera/report/json_text.hpp"

namespace tessera {
namespace report {

std::string cell_text(StudyCell const& cell) {
  if (auto const* text = std::get_if<std::string>(&cell)) return *text;
  auto const value = std::get<double>(cell);
  if (value == std::floor(value) && std::abs(value) < 1e9) return fmt::format("{:.0f}", value);
  auto const size = std::abs(value);
  return fmt::format("{:.{}f}", value, size >= 100 ? 1 : size >= 10 ? 2 : 3);
}

std::string verdict_text(std::string const& verdict) {
  if (verdict == "reproduced") return "✓ reproduced";
  if (verdict == "by other means") return "≈ by other means";
  if (verdict == "missed") return "✗ MISSED";
  return verdict;
}

}  // namespace report

namespace {

std::string table_text(StudyTable const& table) {
  std::vector<std::vector<std::string>> rows(table.rows.size() + 1);
  std::vector<int> right;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    auto const column = static_cast<int>(c);
    if (std::count(table.wide_columns.begin(), table.wide_columns.end(), column) > 0) continue;
    if (std::holds_alternative<double>(table.rows.front()[c]))
      right.push_back(static_cast<int>(rows.front().size()));
    rows.front().push_back(table.columns[c]);
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      auto text = report::cell_text(table.rows[r][c]);
      rows[r + 1].push_back(column == table.verdict_column ? report::verdict_text(text) : std::move(text));
    }
  }
  return report::table(rows, right, 2);
}

}  // namespace

std::string study_text(StudyDocument const& document, std::vector<std::string> const& ids) {
  std::string out;
  for (auto const& table : document.tables) {
    if (table.rows.empty()) continue;
    if (!ids.empty() && std::find(ids.begin(), ids.end(), table.id) == ids.end()) continue;
    out += (out.empty() ? "" : "\n") + table.title + "\n" + table_text(table);
  }
  return out;
}

std::string study_page_text(StudyDocument const& document) {
  std::string out = document.title + "\n";
  for (auto const& table : document.tables) {
    if (table.rows.empty()) continue;
    out +=
        "\n" + table.title + "\n" + (table.note.empty() ? "" : "  " + table.note + "\n") + table_text(table);
  }
  for (auto const& note : document.notes) out += "\n" + note + "\n";
  return out;
}

std::string study_json(StudyDocument const& document) {
  JsonWriter json;
  json.begin_object().member("schema", "tessera.study/1").member("title", document.title);
  json.key("notes").begin_array();
  for (auto const& note : document.notes) json.value(note);
  json.end_array().key("tables").begin_array();
  for (auto const& table : document.tables) {
    json.begin_object().member("id", table.id).member("title", table.title).member("note", table.note);
    json.key("columns").begin_array();
    for (auto const& column : table.columns) json.value(column);
    json.end_array().key("rows").begin_array();
    for (auto const& row : table.rows) {
      json.begin_array();
      for (auto const& cell : row) std::visit([&](auto const& content) { json.value(content); }, cell);
      json.end_array();
    }
    json.end_array().end_object();
  }
  json.end_array().key("machine").raw(document.machine.empty() ? "null" : document.machine);
  return json.end_object().text() + '\n';
}

std::string study_csv(StudyDocument const& document) {
  auto const field = [](std::string const& text) {
    if (text.find_first_of(",\"\n") == std::string::npos) return text;
    std::string out = "\"";
    for (char const c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
    return out + '"';
  };
  std::string out = "table,row,column,value\n";
  for (auto const& table : document.tables)
    for (std::size_t r = 0; r < table.rows.size(); ++r)
      for (std::size_t c = 0; c < table.columns.size(); ++c) {
        auto const& cell = table.rows[r][c];
        auto const* number = std::get_if<double>(&cell);
        fmt::format_to(std::back_inserter(out), "{},{},{},{}\n", table.id, r, field(table.columns[c]),
                       number ? json_number(*number) : field(std::get<std::string>(cell)));
      }
  return out;
}

}  // namespace tessera
