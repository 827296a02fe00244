// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/text.hpp"
#include "tessera/report/sweep.hpp"

namespace tessera {
namespace {

constexpr std::size_t k_most_lines = 8;  // as many as the page has colours

StudyCell cell(std::string const& text) {
  if (auto const number = number_of(text)) return *number;
  return text;
}

StudyTable points(SweepTable const& sweep) {
  StudyTable table{"points", "All points", "", sweep.axes, {}, {}};
  bool const refused = std::any_of(sweep.rows.begin(), sweep.rows.end(),
                                   [](SweepRow const& row) { return !row.refused.empty(); });
  table.columns.insert(table.columns.end(), sweep.results.begin(), sweep.results.end());
  if (refused) table.columns.emplace_back("refused");
  for (auto const& row : sweep.rows) {
    table.rows.emplace_back();
    for (auto const* cells : {&row.values, &row.results})
      for (auto const& text : *cells) table.rows.back().push_back(cell(text));
    if (refused) table.rows.back().emplace_back(row.refused);
  }
  return table;
}

/// "stages 2, raster row": a row's values but for the first axis.
std::string line_name(SweepTable const& sweep, SweepRow const& row, std::string const& result) {
  std::string name;
  for (std::size_t a = 1; a < sweep.axes.size(); ++a)
    name += fmt::format("{}{} {}", name.empty() ? "" : ", ", sweep.axes[a], row.values[a]);
  return name.empty() ? result : name;
}

/// Values of one result by first axis and line; empty where it is a word.
StudyTable plot(SweepTable const& sweep, std::size_t result) {
  StudyTable table{"plot-" + sweep.results[result], sweep.results[result], "", {}, {}, {}};
  std::vector<std::string> places, lines;
  std::map<std::pair<std::string, std::string>, double> values;
  auto const note = [](std::vector<std::string>& list, std::string const& text) {
    if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
  };
  for (auto const& row : sweep.rows) {
    auto const value = number_of(row.results[result]);
    if (!row.results[result].empty() && !value) return {};
    if (!value) continue;
    auto const line = line_name(sweep, row, sweep.results[result]);
    note(places, row.values.front());
    note(lines, line);
    values[{row.values.front(), line}] = *value;
  }
  if (lines.size() > k_most_lines) {
    table.note = fmt::format("The first {} of {} combinations; all are in the table of points.", k_most_lines,
                             lines.size());
    lines.resize(k_most_lines);
  }
  bool const numeric = std::all_of(places.begin(), places.end(),
                                   [](std::string const& place) { return number_of(place).has_value(); });
  if (numeric)
    std::stable_sort(places.begin(), places.end(), [](std::string const& a, std::string const& b) {
      return *number_of(a) < *number_of(b);
    });
  table.columns.push_back(sweep.axes.front());
  table.columns.insert(table.columns.end(), lines.begin(), lines.end());
  double least = 0, most = 0;
  for (auto const& place : places) {
    std::vector<StudyCell> row{cell(place)};
    for (auto const& line : lines)
      if (auto const found = values.find({place, line}); found != values.end()) {
        bool const first = table.rows.empty() && row.size() == 1;
        least = first ? found->second : std::min(least, found->second);
        most = first ? found->second : std::max(most, found->second);
        row.emplace_back(found->second);
      }
    // A line has no gaps: where one combination was refused, none is drawn.
    if (row.size() == table.columns.size()) table.rows.push_back(std::move(row));
  }
  table.plot.kind = numeric && table.rows.size() > 1 ? StudyPlot::Kind::lines : StudyPlot::Kind::bars;
  table.plot.labels = {0};
  for (std::size_t l = 1; l <= lines.size(); ++l) table.plot.values.push_back(static_cast<int>(l));
  // What changes little around a large value would be a flat line from 0.
  table.plot.floor = least < 0.5 * most ? std::min(least, 0.0) : least - 0.2 * (most - least);
  return table;
}

}  // namespace

StudyDocument study_document(SweepTable const& sweep, std::string const& title) {
  StudyDocument document{title, {}, {}, ""};
  if (sweep.rows.size() < sweep.points)
    document.notes.push_back(
        fmt::format("{} of {} points: a share of the sweep.", sweep.rows.size(), sweep.points));
  document.tables.push_back(points(sweep));
  if (sweep.axes.empty()) return document;
  for (std::size_t r = 0; r < sweep.results.size(); ++r)
    if (auto table = plot(sweep, r); !table.rows.empty()) document.tables.push_back(std::move(table));
  return document;
}

}  // namespace tessera
