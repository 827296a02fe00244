// SPDX-License-Identifier: Apache-2.0
// A study as one page without outside resources: a plot and a table for each figure.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "report/html_style.hpp"
#include "report/study_cells.hpp"
#include "report/text.hpp"
#include "tessera/version.hpp"

namespace tessera {
namespace {

using report::html;

constexpr int k_height = 240;
constexpr int k_colours = 8;

template <class... Arguments>
void append(std::string& out, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Arguments>(arguments)...);
}

double number(StudyCell const& cell) {
  auto const* value = std::get_if<double>(&cell);
  return value ? *value : 0;
}

double most(StudyTable const& table) {
  double highest = table.plot.floor;
  for (auto const& row : table.rows)
    for (int const column : table.plot.values)
      highest = std::max(highest, number(row[static_cast<std::size_t>(column)]));
  return highest > table.plot.floor ? highest : table.plot.floor + 1;
}

/// 1, 2 or 5 times a power of ten, for about five marks.
double step_for(double range) {
  double const power = std::pow(10, std::floor(std::log10(range / 5)));
  for (double const factor : {1.0, 2.0, 5.0})
    if (factor * power >= range / 5) return factor * power;
  return 10 * power;
}

std::string legend(StudyTable const& table) {
  std::string out = "<ul class=\"legend\">";
  for (std::size_t v = 0; v < table.plot.values.size(); ++v)
    append(
        out,
        "<li><svg width=\"12\" height=\"12\"><rect class=\"s{}\" width=\"12\" height=\"12\"/></svg>{}</li>",
        v % k_colours, html(table.columns[static_cast<std::size_t>(table.plot.values[v])]));
  return out + "</ul>";
}

struct Axis {
  double floor, top;
  double y(double value) const { return 10 + (k_height - 20) * (1 - (value - floor) / (top - floor)); }
};

/// body(value) at each mark of the axis.
template <class Body>
void for_each_mark(Axis const& axis, Body const& body) {
  auto const step = step_for(axis.top - axis.floor);
  for (double v = std::ceil(axis.floor / step) * step; v <= axis.top * 1.0001; v += step) body(v);
}
std::string grid(Axis const& axis) {
  std::string out;
  for_each_mark(axis, [&](double v) {
    append(out, "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{0:.1f}\" y2=\"{0:.1f}\"/>", axis.y(v));
  });
  return out;
}
/// The axis has a column of its own: nothing is drawn over it.
std::string with_marks(Axis const& axis, std::string const& unit, std::string const& plot) {
  std::string marks, widest;
  for_each_mark(axis, [&](double v) {
    auto const text = fmt::format("{:g}{}", v, html(unit));
    append(marks, "<span style=\"top:{:.1f}px\">{}</span>", axis.y(v), text);
    if (text.size() > widest.size()) widest = text;
  });
  return fmt::format(
      "<div class=\"study\"><div class=\"marks\" style=\"height:{}px\"><b>{}</b>{}</div><div>{}</div></div>",
      k_height, widest, marks, plot);
}
std::string svg(StudyTable const& table, std::string const& body) {
  return fmt::format("<svg height=\"{}\" width=\"100%\" role=\"img\" aria-label=\"{}\">{}</svg>", k_height,
                     html(table.title), body);
}

/// Names stand upright, 12 pixels each: where there are many only every n-th is shown, fewer on a phone.
std::string name_class(std::size_t name, std::size_t count) {
  constexpr std::size_t wide = 12, desk = 620, phone = 280;
  auto const shown = [&](std::size_t pixels) {
    return name % std::max<std::size_t>(1, (count * wide + pixels - 1) / pixels) == 0;
  };
  return shown(desk) ? shown(phone) ? "" : "desk" : shown(phone) ? "phone" : "none";
}

std::string bars(StudyTable const& table) {
  Axis const axis{table.plot.floor, most(table)};
  std::string body = grid(axis);
  std::string labels;
  auto const groups = static_cast<double>(table.rows.size());
  auto const series = static_cast<double>(table.plot.values.size());
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    auto const& row = table.rows[r];
    std::string name;
    for (int const column : table.plot.labels)
      name += (name.empty() ? "" : " ") + report::cell_text(row[static_cast<std::size_t>(column)]);
    for (std::size_t v = 0; v < table.plot.values.size(); ++v) {
      auto const value = number(row[static_cast<std::size_t>(table.plot.values[v])]);
      auto const x = (static_cast<double>(r) + 0.1 + 0.8 * static_cast<double>(v) / series) / groups;
      auto const top = axis.y(std::max(value, axis.floor));
      append(body,
             "<rect class=\"s{}\" x=\"{:.2f}%\" width=\"{:.2f}%\" y=\"{:.1f}\" height=\"{:.1f}\"><title>{}: "
             "{} {}</title></rect>",
             v % k_colours, 100 * x, 80 / groups / series, top, axis.y(axis.floor) - top, html(name),
             html(table.columns[static_cast<std::size_t>(table.plot.values[v])]),
             html(report::cell_text(value)));
    }
    append(labels, "<span class=\"{}\" style=\"left:{:.2f}%\">{}</span>", name_class(r, table.rows.size()),
           100 * (static_cast<double>(r) + 0.5) / groups, html(name));
  }
  return with_marks(axis, table.plot.unit,
                    svg(table, body) + fmt::format("<div class=\"names\">{}</div>", labels));
}

std::string lines(StudyTable const& table) {
  Axis const axis{table.plot.floor, most(table)};
  auto const x_column = static_cast<std::size_t>(table.plot.labels.front());
  double const first = number(table.rows.front()[x_column]);
  double const last = std::max(first + 1e-9, number(table.rows.back()[x_column]));
  std::string body;
  for (std::size_t v = 0; v < table.plot.values.size(); ++v) {
    append(body, "<polyline class=\"l{}\" points=\"", v % k_colours);
    for (auto const& row : table.rows)
      append(body, "{:.2f},{:.1f} ", 1000 * (number(row[x_column]) - first) / (last - first),
             axis.y(number(row[static_cast<std::size_t>(table.plot.values[v])])));
    body += "\"/>";
  }
  auto const inner = fmt::format(
      "<svg viewBox=\"0 0 1000 {0}\" width=\"100%\" height=\"{0}\" preserveAspectRatio=\"none\">{1}</svg>",
      k_height, body);
  auto const ends = fmt::format(
      "<div class=\"axis\"><span>{} {}</span><span class=\"end\" style=\"left:100%\">{}</span></div>",
      html(table.columns[x_column]), html(report::cell_text(first)), html(report::cell_text(last)));
  return with_marks(axis, table.plot.unit, svg(table, inner + grid(axis)) + ends);
}

/// A mark, a word and a frame of its own for each: told apart without colour.
std::string verdict_html(std::string const& verdict) {
  char const* kind = verdict == "reproduced"       ? "held"
                     : verdict == "by other means" ? "other"
                     : verdict == "missed"         ? "missed"
                                                   : nullptr;
  if (kind == nullptr) return html(verdict);
  return fmt::format("<span class=\"verdict {}\">{}</span>", kind, html(report::verdict_text(verdict)));
}

std::string rows_of(StudyTable const& table) {
  std::string out = "<table><thead><tr>";
  auto const numeric = [&](std::size_t c) {
    return !table.rows.empty() && std::holds_alternative<double>(table.rows.front()[c]);
  };
  for (std::size_t c = 0; c < table.columns.size(); ++c)
    append(out, "<th{}>{}</th>", numeric(c) ? " class=\"n\"" : "", html(table.columns[c]));
  out += "</tr></thead><tbody>\n";
  for (auto const& row : table.rows) {
    out += "<tr>";
    for (std::size_t c = 0; c < row.size(); ++c) {
      auto const text = report::cell_text(row[c]);
      append(out, "<td{} data-label=\"{}\">{}</td>", numeric(c) ? " class=\"n\"" : "", html(table.columns[c]),
             static_cast<int>(c) == table.verdict_column ? verdict_html(text) : html(text));
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

// What the plots add to the reports' style.
constexpr std::string_view k_plot_style = R"css(
.verdict{white-space:nowrap;padding:1px 8px;border-radius:4px}
.verdict.held{color:var(--good)}.verdict.other{border:1px dashed var(--warn);color:var(--warn);font-style:italic}
.verdict.missed{background:var(--ink);color:var(--card);font-weight:700}
.study{display:grid;grid-template-columns:max-content 1fr;gap:0 6px}.study>div{min-width:0}
.marks{position:relative;font-size:10px;color:var(--soft)}.marks b{visibility:hidden;font-weight:400}
.marks span{position:absolute;right:0;transform:translateY(-50%);white-space:nowrap}
.names{position:relative;height:84px;font-size:10px;line-height:1.1;color:var(--soft)}
.names span{position:absolute;top:4px;writing-mode:vertical-rl;transform:translateX(-50%);max-height:80px;overflow:hidden;white-space:nowrap}
.names .none,.names .phone{display:none}
@media(max-width:680px){.names .desk{display:none}.names .phone{display:block}}
polyline{fill:none;stroke-width:1.5;vector-effect:non-scaling-stroke}
.l0{stroke:var(--c0)}.l1{stroke:var(--c1)}.l2{stroke:var(--c2)}.l3{stroke:var(--c3)}.l4{stroke:var(--c4)}.l5{stroke:var(--c5)}.l6{stroke:var(--c6)}.l7{stroke:var(--c7)}
)css";

}  // namespace

std::string study_html(StudyDocument const& document) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n<title>{0}</title>\n<style>{1}{2}</style></head>\n"
      "<body><main>\n<h1>{0}</h1>\n",
      html(document.title), report::k_style, k_plot_style);
  for (auto const& note : document.notes) out += fmt::format("<p class=\"note\">{}</p>\n", html(note));
  for (auto const& table : document.tables) {
    if (table.rows.empty()) continue;
    append(out, "<section id=\"{}\"><h2>{}</h2>\n<p>{}</p>\n", html(table.id), html(table.title),
           html(table.note));
    if (table.plot.kind == StudyPlot::Kind::bars)
      out += "<figure>" + legend(table) + bars(table) + "</figure>\n";
    if (table.plot.kind == StudyPlot::Kind::lines)
      out += "<figure>" + legend(table) + lines(table) + "</figure>\n";
    append(out, "<details{}><summary>{}</summary>\n{}</details></section>\n",
           table.plot.kind == StudyPlot::Kind::none ? " open" : "",
           report::plural(static_cast<std::int64_t>(table.rows.size()), "row"), rows_of(table));
  }
  append(out,
         "<footer>tessera {}. Everything on this page is simulated, except what it says the paper "
         "states.</footer>\n"
         "</main></body></html>\n",
         k_version);
  return out;
}

}  // namespace tessera
