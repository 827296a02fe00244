// SPDX-License-Identifier: Apache-2.0
#include "report/html_parts.hpp"

#include <fmt/format.h>

#include "report/html_chart.hpp"
#include "report/html_style.hpp"
#include "report/html_tracks.hpp"
#include "report/text.hpp"

namespace tessera::report {

std::string page_head(std::string const& title) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n<title>{0}</title>\n<style>{1}</style></head>\n"
      "<body>{2}<main>\n<h1>{0}</h1>\n",
      html(title), k_style, chart_patterns());
}

std::string html_arrows(std::string_view text) {
  std::string out = html(text);
  constexpr std::string_view arrow = " -&gt; ", shown = "\u00a0→ ";
  for (auto at = out.find(arrow); at != std::string::npos; at = out.find(arrow, at + shown.size()))
    out.replace(at, arrow.size(), shown);
  return out;
}

std::string note_lines(std::vector<std::string> const& notes) {
  std::string out;
  for (auto const& note : notes) out += fmt::format("<p class=\"note\">{}</p>\n", html(note));
  return out;
}

std::string html_table(std::vector<Column> const& columns,
                       std::vector<std::vector<std::string>> const& rows) {
  auto const css = [](Column const& column) {
    return column.kind == Column::number      ? " class=\"n\""
           : column.kind == Column::long_text ? " class=\"long\""
                                              : "";
  };
  std::string out = "<table><thead><tr>";
  for (auto const& column : columns) out += fmt::format("<th{}>{}</th>", css(column), column.name);
  out += "</tr></thead><tbody>\n";
  for (auto const& row : rows) {
    out += "<tr>";
    for (std::size_t c = 0; c < row.size(); ++c)
      out += fmt::format("<td{} data-label=\"{}\">{}</td>", css(columns[c]), columns[c].name, row[c]);
    out += "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

std::string legend(Timeline const& timeline) {
  std::string out = "<ul class=\"legend\">";
  auto const entry = [&](std::string_view css, std::string const& text) {
    out += fmt::format(
        "<li><svg width=\"14\" height=\"14\"><rect class=\"{}\" width=\"14\" height=\"14\"/></svg>{}</li>",
        css, html(text));
  };
  for (std::size_t s = 0; s < timeline.stages.size(); ++s)
    entry(fmt::format("s{}", s % k_stage_colours), timeline.stages[s].name);
  entry("w7", "hatched: resident, but waiting");
  if (drawn_block_by_block(timeline)) {
    entry("s7 set", "pale: set-up");
    entry("s7 store", "dark: store and post");
  }
  return out + "</ul>\n" + counter_legend(timeline);
}

std::string drawing(std::string_view caption, Timeline const& timeline, std::int64_t scale) {
  auto const facts = timeline.by_launch
                         ? std::string("by launch")
                         : fmt::format("{:g} waves, SMs busy {}", timeline.waves, percent(timeline.busy));
  return fmt::format(
      "<figure><figcaption><b>{}</b> <span class=\"soft\">{}; {}, {}</span></figcaption>{}</figure>\n",
      html_arrows(caption), timeline.measured ? "measured" : "simulated", us_of(timeline.end), facts,
      chart(timeline, scale));
}

}  // namespace tessera::report
