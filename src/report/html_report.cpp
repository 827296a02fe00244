// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "report/facts.hpp"
#include "report/html_chart.hpp"
#include "report/html_style.hpp"
#include "report/text.hpp"
#include "tessera/report/report.hpp"
#include "tessera/version.hpp"

namespace tessera {
namespace {

using namespace report;

struct Column {
  std::string name;
  enum Kind { text, number, long_text } kind = text;
};

/// Cells are HTML already. On a phone every cell shows its column's name beside it.
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

bool compared(Plan const& plan) { return plan.predicted_us > 0 && plan.stream_order_us > 0; }

std::string gain(Plan const& plan) {
  if (!compared(plan)) return "-";
  auto const text = percent(1 - plan.predicted_us / plan.stream_order_us);
  return plan.predicted_us < plan.stream_order_us ? fmt::format("<span class=\"good\">{}</span>", text)
                                                  : text;
}

std::string overview(std::vector<ReportEntry> const& entries, Labels const& labels) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t e = 0; e < entries.size(); ++e) {
    auto const& plan = entries[e].plan;
    double waves = 0;
    for (auto const& stage : plan.stages) waves += stage.waves;
    double const width =
        compared(plan) ? std::clamp(100 * plan.predicted_us / plan.stream_order_us, 0.0, 100.0) : 0;
    rows.push_back({fmt::format("<a href=\"#size{}\">{}</a>", e, html(labels.own[e])), waves_text(waves),
                    html(mechanism_text(plan)), plan.semaphores.empty() ? "-" : html(policy_text(plan)),
                    us_number(plan.predicted_us), compared(plan) ? us_number(plan.stream_order_us) : "-",
                    fmt::format("<span class=\"bar\" style=\"--w:{:.1f}%\"></span>", width), gain(plan),
                    html(plan.bound_by)});
  }
  return "<section><h2>All sizes</h2>\n" +
         html_table({{"size"},
                     {"waves", Column::number},
                     {"mechanism"},
                     {"policy"},
                     {"us", Column::number},
                     {"stream order us", Column::number},
                     {"share of stream order"},
                     {"gain", Column::number},
                     {"bound by"}},
                    rows) +
         "</section>\n";
}

std::string figures(Plan const& plan) {
  std::string out = "<ul class=\"figures\">";
  auto const figure = [&](std::string const& value, char const* name) {
    if (!value.empty()) out += fmt::format("<li><b>{}</b><span>{}</span></li>", value, name);
  };
  figure(plan.predicted_us > 0 ? us(plan.predicted_us) : "", "predicted");
  figure(plan.stream_order_us > 0 ? us(plan.stream_order_us) : "", "best stream order");
  figure(compared(plan) ? gain(plan) : "", "less time");
  figure(html(mechanism_text(plan)), "mechanism");
  figure(plan.semaphores.empty() ? "" : html(policy_text(plan)), "policy");
  figure(html(plan.bound_by), "bound by");
  return out + "</ul>\n";
}

std::string reasons(Plan const& plan) {
  std::string out = "<dl>";
  auto const entry = [&](char const* name, std::string const& text) {
    if (!text.empty()) out += fmt::format("<dt>{}</dt><dd>{}</dd>", name, html(text));
  };
  entry("Why", plan.why);
  if (auto const next = runner_up(plan); next && plan.predicted_us > 0)
    entry("Margin",
          fmt::format("{} to the next: {}", us(next->predicted_us - plan.predicted_us), next->description));
  for (auto const& line : launch_lines(plan)) entry("Launch", line);
  entry("Cannot hang", plan.proof);
  return out + "</dl>\n";
}

std::string stages(Plan const& plan) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    auto const& stage = plan.pipeline.stages[s];
    auto const& chosen = plan.stages[s];
    rows.push_back({html(stage.name), html(grid_text(stage)), std::to_string(stage.blocks()),
                    std::to_string(chosen.occupancy), waves_text(chosen.waves), html(kernel_text(plan, s)),
                    html(chosen.order.name), html(options_text(plan, s))});
  }
  return "<h3>Stages</h3>\n" + html_table({{"stage"},
                                           {"tiles"},
                                           {"blocks", Column::number},
                                           {"per SM", Column::number},
                                           {"waves", Column::number},
                                           {"kernel"},
                                           {"order"},
                                           {"options"}},
                                          rows);
}

std::string dependences(Plan const& plan) {
  if (plan.pipeline.dependences.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  auto const name = [&](int stage) {
    return html(plan.pipeline.stages[static_cast<std::size_t>(stage)].name);
  };
  for (std::size_t d = 0; d < plan.pipeline.dependences.size(); ++d) {
    auto const& edge = plan.pipeline.dependences[d];
    auto const counted = traffic(plan, d);
    int const set = plan.dependences[d].semaphore_set;
    rows.push_back({name(edge.producer) + " → " + name(edge.consumer), html(edge.operand),
                    html(policy_of(plan, d)),
                    set < 0 ? "0" : std::to_string(plan.semaphores[static_cast<std::size_t>(set)].count),
                    counted ? std::to_string(counted->waits) : "many",
                    counted ? std::to_string(counted->posts) : "many"});
  }
  return "<h3>Dependences</h3>\n" + html_table({{"dependence"},
                                                {"operand"},
                                                {"policy"},
                                                {"semaphores", Column::number},
                                                {"waits", Column::number},
                                                {"posts", Column::number}},
                                               rows);
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
  return out + "</ul>\n";
}

std::string drawing(std::string_view caption, Timeline const& timeline, std::int64_t scale) {
  auto const facts = timeline.by_launch
                         ? std::string("by launch")
                         : fmt::format("{:g} waves, SMs busy {}", timeline.waves, percent(timeline.busy));
  return fmt::format(
      "<figure><figcaption><b>{}</b> <span class=\"soft\">{}; {}, {}</span></figcaption>{}</figure>\n",
      html(caption), timeline.measured ? "measured" : "simulated", us_of(timeline.end), facts,
      chart(timeline, scale));
}

std::string drawings(ReportEntry const& entry) {
  if (entry.timeline.tiles.empty()) return "";
  auto const scale = std::max({entry.timeline.end, entry.measured.end,
                               entry.stream_order.tiles.empty() ? 0 : entry.stream_order.end});
  auto out = "<h3>Timeline</h3>\n" + legend(entry.timeline);
  bool const is_stream = is_stream_order(entry.plan);
  out +=
      drawing(is_stream ? "Plan: stream order" : "Plan: " + summary_line(entry.plan), entry.timeline, scale);
  if (!entry.measured.stages.empty())
    out += drawing("The same plan on a GPU, same scale", entry.measured, scale);
  if (!entry.stream_order.tiles.empty() && !is_stream)
    out += drawing("Best stream order, same scale", entry.stream_order, scale);
  return out;
}

std::string alternatives(Plan const& plan) {
  auto const sorted = sorted_alternatives(plan);
  if (sorted.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (auto const& other : sorted) {
    bool const priced = other.predicted_us > 0;
    rows.push_back({html(other.description), priced ? us_number(other.predicted_us) : "not priced",
                    priced ? signed_us(other.predicted_us - plan.predicted_us) : "-", html(other.reason)});
  }
  return fmt::format("<h3>Not taken</h3>\n<details{}><summary>{}</summary>\n{}</details>\n",
                     sorted.size() <= 12 ? " open" : "",
                     plural(static_cast<std::int64_t>(sorted.size()), "alternative"),
                     html_table({{"candidate"},
                                 {"us", Column::number},
                                 {"against the plan", Column::number},
                                 {"reason", Column::long_text}},
                                rows));
}

}  // namespace

std::string html_report(std::string const& title, std::vector<ReportEntry> const& entries,
                        std::vector<std::string> const& notes) {
  std::vector<std::string> names;
  for (auto const& entry : entries) names.push_back(entry.plan.pipeline.name);
  auto const labels = split_names(names);
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n<title>{0}</title>\n<style>{1}</style></head>\n"
      "<body>{2}<main>\n<h1>{0}</h1>\n",
      html(title), k_style, chart_patterns());
  if (!entries.empty()) {
    auto const& first = entries.front();
    out += fmt::format("<p class=\"soft\">{}{}machine {}</p>\n", html(labels.common),
                       labels.common.empty() ? "" : "; ", html(first.plan.machine));
  }
  for (auto const& note : notes) out += fmt::format("<p class=\"note\">{}</p>\n", html(note));
  if (entries.size() > 1) out += overview(entries, labels);
  for (std::size_t e = 0; e < entries.size(); ++e) {
    auto const& entry = entries[e];
    out += fmt::format(
        "<section id=\"size{}\"><details{}><summary><h2>{}</h2><span class=\"soft\">{}</span></summary>\n", e,
        e == 0 || entries.size() <= 3 ? " open" : "", html(labels.own[e]), html(summary_line(entry.plan)));
    out += figures(entry.plan) + reasons(entry.plan) + drawings(entry) + stages(entry.plan) +
           dependences(entry.plan) + alternatives(entry.plan) + "</details></section>\n";
  }
  return out + fmt::format(
                   "<footer>tessera {}. A block is drawn from the moment it holds its place on an SM; waits "
                   "are hatched. "
                   "Simulated times follow the machine profile, not a run.</footer>\n</main></body></html>\n",
                   k_version);
}

}  // namespace tessera
