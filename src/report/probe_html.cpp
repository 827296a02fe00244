// SPDX-License-Identifier: Apache-2.0
// The report as one page without outside resources.
#include <fmt/format.h>

#include <algorithm>

#include "report/html_style.hpp"
#include "report/probe_plot.hpp"
#include "report/probe_tables.hpp"
#include "report/text.hpp"
#include "tessera/version.hpp"

namespace tessera {
namespace {

using namespace report;

struct Head {
  std::string name;
  bool number = false, unit = false;
};

char const* css(Head const& head) { return head.number ? " class=\"n\"" : head.unit ? " class=\"u\"" : ""; }

/// Cells are HTML already.
std::string table(std::vector<Head> const& heads, std::vector<std::vector<std::string>> const& rows) {
  std::string out = "<table><thead><tr>";
  for (auto const& head : heads) out += fmt::format("<th{}>{}</th>", css(head), head.name);
  out += "</tr></thead><tbody>\n";
  for (auto const& row : rows) {
    out += "<tr>";
    for (std::size_t c = 0; c < row.size(); ++c)
      out += fmt::format("<td{} data-label=\"{}\">{}</td>", css(heads[c]), heads[c].name, row[c]);
    out += "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

void add_heads(std::vector<Head>& heads, std::vector<NamedProbe> const& probes, bool number) {
  for (auto const& probe : probes) heads.push_back({html(probe.name), number});
}

std::string value(Figure const* figure) {
  if (figure == nullptr) return "";
  return fmt::format("<span title=\"{} to {}, {} samples{}\">{}</span>", number_text(figure->p05),
                     number_text(figure->p95), figure->samples,
                     figure->verified ? ", order checked on data" : "", html(value_text(*figure)));
}

std::string about(ProbeCurve const& curve) {
  auto const& f = *curve.figure;
  auto text = fmt::format("{} <span class=\"about\">({}", html(f.what), html(f.method));
  if (auto const fixed = conditions_text(curve.fixed); !fixed.empty()) text += "; " + html(fixed);
  if (!f.valid.empty()) text += "; " + html(f.valid);
  return text + ")</span>";
}

std::string single_values(ProbeSection const& section, std::vector<NamedProbe> const& probes) {
  std::vector<Head> heads{{"figure"}, {"unit", false, true}};
  add_heads(heads, probes, true);
  std::vector<std::vector<std::string>> rows;
  for (auto const& curve : section.curves) {
    if (curve.points.size() != 1) continue;
    rows.push_back({about(curve) + " <code>" + html(curve.figure->id) + "</code>", html(curve.figure->unit)});
    for (auto const* figure : curve.points[0].values) rows.back().push_back(value(figure));
  }
  return rows.empty() ? "" : table(heads, rows);
}

std::string curve_part(ProbeCurve const& curve, std::vector<NamedProbe> const& probes) {
  auto out = fmt::format("<div><h3><code>{}</code>, {}</h3>\n<p>{}</p>\n", html(curve.figure->id),
                         html(curve.figure->unit), about(curve));
  auto picture = curve_plot(curve, probes);
  if (picture.empty()) picture = heat_map(curve);
  if (!picture.empty()) out += "<figure>" + picture + "</figure>\n";
  std::vector<Head> heads;
  for (auto const& name : curve.varying) heads.push_back({html(condition_name(name)), true});
  if (heads.empty()) heads.push_back({""});
  auto const left = heads.size();
  auto const shown = measured_by(curve);
  for (auto p : shown) heads.push_back({html(probes[p].name), true});
  std::vector<std::vector<std::string>> rows;
  for (auto const& point : curve.points) {
    std::vector<std::string> cells;
    for (auto const& name : curve.varying) {
      auto const at = point.at.find(name);
      cells.push_back(at == point.at.end() ? "" : html(condition_value(name, at->second)));
    }
    cells.resize(left);
    for (auto p : shown) cells.push_back(value(point.values[p]));
    rows.push_back(std::move(cells));
  }
  return out + fmt::format("<details{}><summary>{}</summary>\n{}</details></div>\n",
                           picture.empty() || rows.size() <= 8 ? " open" : "",
                           plural(static_cast<std::int64_t>(rows.size()), "value"), table(heads, rows));
}

std::string side_by_side(std::vector<ProbeSection> const& sections, std::vector<NamedProbe> const& probes) {
  std::vector<Head> heads{{"what"}, {"at"}, {"unit", false, true}};
  add_heads(heads, probes, true);
  std::vector<std::vector<std::string>> rows;
  for (auto const& one : shared_rows(sections)) {
    auto const& valid = one.point->values.front()->valid;
    auto const note = valid.empty() ? "" : " <span class=\"about\">(" + html(valid) + ")</span>";
    rows.push_back({html(one.curve->figure->what) + note, html(conditions_text(one.point->at)),
                    html(one.curve->figure->unit)});
    for (auto const* figure : one.point->values) rows.back().push_back(value(figure));
  }
  if (rows.empty()) return "";
  return "<section><h2>Side by side</h2>\n<p>What the others have too.</p>\n" + table(heads, rows) +
         "</section>\n";
}

std::string models(std::vector<NamedProbe> const& probes) {
  std::string out;
  for (auto const& one : probes) {
    if (one.probe.tau.empty()) continue;
    std::vector<std::vector<std::string>> rows;
    for (auto const& model : one.probe.tau) {
      auto const& fit = model.fit;
      rows.push_back(
          {html(model.mechanism), fmt::format("{} ± {:.2g}", number_text(fit.sync_ns), fit.sync_error),
           fmt::format("{} ± {:.2g}", number_text(fit.work_ns), fit.work_error), percent(fit.rms_residual),
           percent(fit.worst_residual), percent(model.hold_out), fmt::format("{:.2f}", fit.overlap)});
    }
    out += fmt::format("<h3>{}</h3>\n<figure class=\"wide\">{}</figure>\n", html(one.name),
                       tau_plot(one.probe.tau));
    out += table({{"mechanism"},
                  {"λ, ns", true},
                  {"τ, ns", true},
                  {"residual, rms", true},
                  {"worst", true},
                  {"hold-out", true},
                  {"exponent", true}},
                 rows);
  }
  if (out.empty()) return out;
  return "<section><h2>Model</h2>\n<p>N iterations of M units of work and K synchronizations take T₀ + N (M "
         "τ + K "
         "λ): λ is what one synchronization costs. Full points were fitted to, rings were kept back.</p>\n" +
         out + "</section>\n";
}

std::string verdicts(std::vector<NamedProbe> const& probes) {
  std::vector<Head> heads{{"what was done"}};
  add_heads(heads, probes, false);
  std::vector<std::vector<std::string>> rows;
  for (auto const& one : verdict_rows(probes)) {
    rows.push_back({html(one.what) + " <code>" + html(one.id) + "</code>"});
    for (auto const* verdict : one.values)
      rows.back().push_back(
          verdict == nullptr ? "" : fmt::format("<b>{}</b> {}", html(verdict->answer), html(verdict->note)));
  }
  return rows.empty() ? "" : "<section><h2>What held</h2>\n" + table(heads, rows) + "</section>\n";
}

}  // namespace

std::string probe_html(std::vector<NamedProbe> const& probes) {
  auto const title = "What synchronization costs: " + probes.front().name;
  auto out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n<title>{0}</title>\n<style>{1}{2}</style></head>\n"
      "<body><main>\n<h1>{0}</h1>\n",
      html(title), k_style, k_probe_style);
  std::vector<Head> heads{{""}};
  add_heads(heads, probes, false);
  std::vector<std::vector<std::string>> rows;
  for (auto const& one : identity_rows(probes)) {
    rows.push_back({one.name});
    for (auto const& text : one.values) rows.back().push_back(html(text));
  }
  out +=
      "<section>" + table(heads, rows) +
      "<p class=\"about\">Values are medians ± the deviation of one cost (Eq. 8 of Zhang et al., IPDPS 2020, "
      "where it is a difference). Point at a value for its 5th and 95th percentile.</p></section>\n";
  if (auto const first = headlines(probes.front().probe); !first.empty()) {
    out += "<ul class=\"figures\">";
    for (auto const& one : first)
      out += fmt::format("<li><b>{}</b><span>{}</span></li>", html(one.value), html(one.what));
    out += "</ul>\n";
  }
  auto const sections = probe_sections(probes);
  out += side_by_side(sections, probes);
  for (auto const& section : sections) {
    out += fmt::format("<section><h2>{}</h2>\n<p>{}</p>\n", html(section.title), html(section.about));
    out += single_values(section, probes);
    out += "<div class=\"curves\">\n";
    for (auto const& curve : section.curves)
      if (curve.points.size() > 1) out += curve_part(curve, probes);
    out += "</div></section>\n";
  }
  out += models(probes) + verdicts(probes);
  return out + fmt::format("<footer>tessera {}</footer>\n</main></body></html>\n", k_version);
}

}  // namespace tessera
