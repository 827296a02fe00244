// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "report/facts.hpp"
#include "report/html_parts.hpp"
#include "report/html_stages.hpp"
#include "report/roof.hpp"
#include "report/text.hpp"
#include "report/tile_viewer.hpp"
#include "tessera/report/report.hpp"
#include "tessera/version.hpp"

namespace tessera {
namespace {

using namespace report;

bool compared(Plan const& plan) { return plan.predicted_us > 0 && plan.stream_order_us > 0; }

std::string gain(Plan const& plan) {
  if (!compared(plan)) return "-";
  double const share = 1 - plan.predicted_us / plan.stream_order_us;
  return share > k_model_error ? fmt::format("<span class=\"good\">{}</span>", percent(share))
                               : percent(share);
}

std::string gain_words(Plan const& plan) {
  double const share = 1 - plan.predicted_us / plan.stream_order_us;
  return share <= 0 ? "less time"
         : share > k_model_error
             ? fmt::format("less time; predictions are off by up to {} in the median", percent(k_model_error))
             : fmt::format("less time, below the model's error of {}", percent(k_model_error));
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
  auto const figure = [&](std::string const& value, std::string const& name) {
    if (!value.empty()) out += fmt::format("<li><b>{}</b><span>{}</span></li>", value, name);
  };
  figure(plan.predicted_us > 0 ? us(plan.predicted_us) : "", "predicted");
  figure(plan.stream_order_us > 0 ? us(plan.stream_order_us) : "", "best stream order");
  if (compared(plan)) figure(gain(plan), gain_words(plan));
  figure(html(mechanism_text(plan)), "mechanism");
  figure(plan.semaphores.empty() ? "" : html(policy_text(plan)), "policy");
  figure(html(plan.bound_by), "bound by");
  return out + "</ul>\n";
}

std::string reasons(Plan const& plan) {
  std::string out = "<dl>";
  auto const entry = [&](char const* name, std::string const& text) {
    if (!text.empty()) out += fmt::format("<dt>{}</dt><dd>{}</dd>", name, html_arrows(text));
  };
  entry("Why", plan.why);
  if (auto const next = runner_up(plan); next && plan.predicted_us > 0)
    entry("Margin", fmt::format("{} to the next that is slower: {}",
                                us(next->predicted_us - plan.predicted_us), next->description));
  for (auto const& line : launch_lines(plan)) entry("Launch", line);
  entry("Cannot hang", plan.proof);
  return out + "</dl>\n";
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

std::string drawings(ReportEntry const& entry) {
  if (entry.timeline.tiles.empty()) return "";
  auto const scale = std::max({entry.timeline.end, entry.measured.end,
                               entry.stream_order.tiles.empty() ? 0 : entry.stream_order.end});
  auto out = "<h3>Timeline</h3>\n" + legend(entry.timeline);
  if (!says_the_same(entry.plan, entry.timeline))
    out += fmt::format(
        "<p class=\"soft\">Predicted times are at one clock for all candidates, as where they run in turns; "
        "a timeline is at the clock of that plan alone: {} where {} is predicted.</p>\n",
        us_of(entry.timeline.end), us(entry.plan.predicted_us));
  bool const is_stream = is_stream_order(entry.plan);
  out +=
      drawing(is_stream ? "Plan: stream order" : "Plan: " + summary_line(entry.plan), entry.timeline, scale);
  if (!entry.measured.stages.empty())
    out += drawing("The same plan on a GPU, same scale", entry.measured, scale);
  if (!entry.stream_order.tiles.empty() && !is_stream)
    out += drawing("Best stream order, same scale", entry.stream_order, scale);
  return out;
}

std::string alternative_rows(std::string const& summary, std::vector<Alternative> const& some,
                             Plan const& plan, bool open) {
  if (some.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (auto const& other : some) {
    bool const priced = other.predicted_us > 0;
    rows.push_back({html_arrows(other.description), priced ? us_number(other.predicted_us) : "-",
                    priced ? signed_us(other.predicted_us - plan.predicted_us) : "-",
                    html_arrows(other.reason)});
  }
  return fmt::format("<details{}><summary>{}</summary>\n{}</details>\n", open ? " open" : "", summary,
                     html_table({{"candidate"},
                                 {"us", Column::number},
                                 {"against the plan", Column::number},
                                 {"reason", Column::long_text}},
                                rows));
}

/// What takes longer, what takes as long by what is simulated, and what was ruled out.
std::string alternatives(Plan const& plan) {
  std::vector<Alternative> longer, alike, out;
  for (auto const& other : sorted_alternatives(plan))
    (other.predicted_us <= 0 ? out : takes_as_long(plan, other) ? alike : longer).push_back(other);
  if (longer.empty() && alike.empty() && out.empty()) return "";
  auto const count = [](auto const& some) { return static_cast<std::int64_t>(some.size()); };
  return "<h3>Not taken</h3>\n" +
         alternative_rows(fmt::format("{} predicted to take longer", plural(count(longer), "candidate")),
                          longer, plan, longer.size() <= 12) +
         alternative_rows(
             fmt::format("{} predicted to take as long as the plan", plural(count(alike), "candidate")),
             alike, plan, false) +
         alternative_rows(fmt::format("{} ruled out without a price", plural(count(out), "candidate")), out,
                          plan, out.size() <= 12);
}

}  // namespace

std::string html_fragment(ReportEntry const& entry, std::vector<std::string> const& notes) {
  auto const& plan = entry.plan;
  return fragment_head(plan.pipeline.name) +
         fmt::format("<p class=\"soft\">{}</p>\n", html(summary_line(plan))) + note_lines(notes) +
         figures(plan) + drawings(entry) + "<details><summary>Why, launches, proof</summary>\n" +
         reasons(plan) + "</details>\n" + "<details><summary>Stages and dependences</summary>\n" +
         stage_tables(entry) + dependences(plan) + "</details>\n" + alternatives(plan) + k_fragment_end;
}

std::string html_report(std::string const& title, std::vector<ReportEntry> const& entries,
                        std::vector<std::string> const& notes) {
  std::vector<std::string> names;
  for (auto const& entry : entries) names.push_back(entry.plan.pipeline.name);
  auto const labels = split_names(names);
  std::string out = page_head(title);
  if (!entries.empty()) {
    auto const& first = entries.front();
    out += fmt::format("<p class=\"soft\">{}{}machine {}</p>\n", html(labels.common),
                       labels.common.empty() ? "" : "; ", html(first.plan.machine));
  }
  out += note_lines(notes);
  if (entries.size() > 1) out += overview(entries, labels);
  for (std::size_t e = 0; e < entries.size(); ++e) {
    auto const& entry = entries[e];
    out += fmt::format(
        "<section id=\"size{}\"><details{}><summary><h2>{}</h2><span class=\"soft\">{}</span></summary>\n", e,
        e == 0 || entries.size() <= 3 ? " open" : "", html(labels.own[e]), html(summary_line(entry.plan)));
    out += figures(entry.plan) + reasons(entry.plan) + drawings(entry) +
           tile_viewer(entry.plan, entry.timeline) + stage_tables(entry) + dependences(entry.plan) +
           alternatives(entry.plan) + "</details></section>\n";
  }
  return out + tile_viewer_script() +
         fmt::format(
             "<footer>tessera {}. A block is drawn from the moment it holds its place on an SM; waits "
             "are hatched. "
             "Simulated times follow the machine profile, not a run.</footer>\n</main></body></html>\n",
             k_version);
}

}  // namespace tessera
