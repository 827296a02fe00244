// SPDX-License-Identifier: Apache-2.0
// Columns: sweep, points, point, inputs, one for each axis, refused, one for each result.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "describe/fingerprint.hpp"
#include "sweep/finding.hpp"
#include "sweep/row_check.hpp"
#include "tessera/sweep/table.hpp"

namespace tessera {
namespace {

std::vector<std::string> const k_before{"sweep", "points", "point", "inputs"};
constexpr char const* k_between = "refused";

void append(std::string& out, std::string const& cell, bool first = false) {
  if (!first) out += ',';
  if (cell.find_first_of(",\"\n\r") == std::string::npos) {
    out += cell;
    return;
  }
  out += '"';
  for (char const c : cell) out.append(c == '"' ? 2U : 1U, c);
  out += '"';
}

/// Cells of every line; empty where a quote is not closed. Lines that end with \r\n are fine: a file may have
/// gone through a spreadsheet.
std::vector<std::vector<std::string>> cells_of(std::string_view text) {
  std::vector<std::vector<std::string>> lines;
  std::vector<std::string> line{""};
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char const c = text[i];
    if (c == '"') {
      bool const doubled = quoted && text.substr(i + 1, 1) == "\"";
      if (doubled)
        line.back() += text[++i];
      else
        quoted = !quoted;
    } else if (!quoted && c == ',') {
      line.emplace_back();
    } else if (!quoted && c == '\n') {
      lines.push_back(std::exchange(line, {""}));
    } else if (quoted || c != '\r') {
      line.back() += c;
    }
  }
  if (quoted) return {};
  if (line.size() > 1 || !line.front().empty()) lines.push_back(line);
  return lines;
}

bool whole(std::string const& text, std::size_t& into) {
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc{} && end == text.data() + text.size() && into > 0 && into <= k_most_points;
}

}  // namespace

std::string fingerprint(std::string const& text) { return fmt::format("{:016x}", fingerprint_of(text)); }

std::string print_sweep_csv(SweepTable const& table) {
  std::string out;
  for (auto const& name : k_before) append(out, name, out.empty());
  for (auto const& name : table.axes) append(out, name);
  append(out, k_between);
  for (auto const& name : table.results) append(out, name);
  out += '\n';
  for (auto const& row : table.rows) {
    append(out, table.sweep, true);
    append(out, std::to_string(table.points));
    append(out, std::to_string(row.point + 1));
    append(out, row.inputs);
    for (auto const& value : row.values) append(out, value);
    append(out, row.refused);
    for (auto const& result : row.results) append(out, result);
    out += '\n';
  }
  return out;
}

Expected<SweepTable> parse_sweep_csv(std::string_view text, std::string const& file,
                                     SweepRules const& rules) {
  auto const lines = cells_of(text);
  auto const no = [&](std::string why, std::size_t line) {
    return refuse(finding("E0923", "this is no table of a sweep: " + std::move(why),
                          "remove it, or name another file", file, static_cast<int>(line)));
  };
  if (lines.empty()) return no(text.empty() ? "it is empty" : "a quote is not closed", 0);
  auto const& header = lines.front();
  auto const between = std::find(header.begin(), header.end(), k_between);
  if (header.size() <= k_before.size() || !std::equal(k_before.begin(), k_before.end(), header.begin()) ||
      between == header.end())
    return no(fmt::format("its columns are not {},{},...,{},...", k_before[0], k_before[1], k_between), 1);
  SweepTable table;
  table.axes.assign(header.begin() + static_cast<std::ptrdiff_t>(k_before.size()), between);
  table.results.assign(between + 1, header.end());
  RowCheck check(table, rules);
  for (std::size_t l = 1; l < lines.size(); ++l) {
    auto const& cells = lines[l];
    if (cells.size() != header.size())
      return no(fmt::format("this line has {} cells, the first {}", cells.size(), header.size()), l + 1);
    SweepRow row;
    std::size_t points = 0;
    if (!whole(cells[1], points) || !whole(cells[2], row.point) || row.point > points)
      return no(fmt::format("\"{}\" is no point of \"{}\"", cells[2], cells[1]), l + 1);
    --row.point;
    if (l == 1) table.sweep = cells[0], table.points = points;
    if (table.sweep != cells[0] || table.points != points)
      return no("its rows are of different sweeps", l + 1);
    if (!is_fingerprint(table.sweep))
      return no(fmt::format("\"{}\" is no fingerprint of 16 hexadecimal digits", table.sweep.substr(0, 60)),
                l + 1);
    row.inputs = cells[3];
    auto const first = cells.begin() + static_cast<std::ptrdiff_t>(k_before.size());
    auto const middle = first + static_cast<std::ptrdiff_t>(table.axes.size());
    row.values.assign(first, middle);
    row.refused = *middle;
    row.results.assign(middle + 1, cells.end());
    if (auto const wrong = check.problem(row); !wrong.empty()) return no(wrong, l + 1);
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace tessera
