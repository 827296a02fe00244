// SPDX-License-Identifier: Apache-2.0
// The report as a document: one table a curve.
#include <fmt/format.h>

#include <algorithm>

#include "report/probe_tables.hpp"
#include "tessera/version.hpp"

namespace tessera {
namespace {

using namespace report;

/// A table's cell: what would end it is told apart.
std::string cell(std::string text) {
  std::string out;
  for (char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string row(std::vector<std::string> const& cells) {
  std::string out = "|";
  for (auto const& one : cells) out += " " + cell(one) + " |";
  return out + "\n";
}

std::string rule(std::size_t left, std::size_t right) {
  std::string out = "|";
  for (std::size_t i = 0; i < left; ++i) out += " --- |";
  for (std::size_t i = 0; i < right; ++i) out += " ---: |";
  return out + "\n";
}

std::string about(ProbeCurve const& curve) {
  auto const& f = *curve.figure;
  std::string text = f.what;
  text += fmt::format("; {}", f.method);
  if (auto const fixed = conditions_text(curve.fixed); !fixed.empty()) text += "; " + fixed;
  if (!f.valid.empty()) text += "; " + f.valid;
  return text;
}

std::string value(Figure const* figure) { return figure == nullptr ? "" : value_text(*figure); }

std::string single_values(ProbeSection const& section, std::vector<NamedProbe> const& probes) {
  std::string out;
  for (auto const& curve : section.curves) {
    if (curve.points.size() != 1) continue;
    if (out.empty()) {
      std::vector<std::string> heads{"figure", "unit", "what, how, where it holds"};
      for (auto const& probe : probes) heads.push_back(probe.name);
      out = row(heads) + rule(3, probes.size());
    }
    std::vector<std::string> cells{"`" + curve.figure->id + "`", curve.figure->unit, about(curve)};
    for (auto const* figure : curve.points[0].values) cells.push_back(value(figure));
    out += row(cells);
  }
  return out.empty() ? out : out + "\n";
}

std::string curve_table(ProbeCurve const& curve, std::vector<NamedProbe> const& probes) {
  auto out = fmt::format("`{}`, {}: {}\n\n", curve.figure->id, curve.figure->unit, about(curve));
  std::vector<std::string> heads;
  for (auto const& name : curve.varying) heads.push_back(condition_name(name));
  if (heads.empty()) heads.emplace_back("");
  auto const left = heads.size();
  auto const shown = measured_by(curve);
  for (auto p : shown) heads.push_back(probes[p].name);
  out += row(heads) + rule(left, shown.size());
  for (auto const& point : curve.points) {
    std::vector<std::string> cells;
    for (auto const& name : curve.varying) {
      auto const at = point.at.find(name);
      cells.push_back(at == point.at.end() ? "" : condition_value(name, at->second));
    }
    cells.resize(left);
    for (auto p : shown) cells.push_back(value(point.values[p]));
    out += row(cells);
  }
  return out + "\n";
}

/// What, and what must be known to compare it.
std::string about_shared(SharedRow const& row) {
  auto const& valid = row.point->values.front()->valid;
  return row.curve->figure->what + (valid.empty() ? "" : " (" + valid + ")");
}

std::string side_by_side(std::vector<ProbeSection> const& sections, std::vector<NamedProbe> const& probes) {
  auto const rows = shared_rows(sections);
  if (rows.empty()) return "";
  std::vector<std::string> heads{"what", "at", "unit"};
  for (auto const& probe : probes) heads.push_back(probe.name);
  auto out = "## Side by side\n\nWhat the others have too.\n\n" + row(heads) + rule(3, probes.size());
  for (auto const& one : rows) {
    std::vector<std::string> cells{about_shared(one), conditions_text(one.point->at),
                                   one.curve->figure->unit};
    for (auto const* figure : one.point->values) cells.push_back(value(figure));
    out += row(cells);
  }
  return out + "\n";
}

std::string models(std::vector<NamedProbe> const& probes) {
  std::string out;
  for (auto const& one : probes)
    for (auto const& model : one.probe.tau) {
      if (out.empty())
        out =
            "## Model\n\nN iterations of M units of work and K synchronizations take T0 + N (M tau + K "
            "lambda); "
            "lambda is what one synchronization costs. Where a residual is over 5 %, the law does not hold, "
            "and "
            "lambda and tau are no costs.\n\n" +
            row({"mechanism", "where", "holds", "lambda, ns", "tau, ns", "residual, rms", "worst", "hold-out",
                 "exponent", "samples"}) +
            rule(3, 7);
      auto const& fit = model.fit;
      out += row({model.mechanism, one.name, law_holds(fit) ? "yes" : "**no**",
                  fmt::format("{} ± {:.2g}", number_text(fit.sync_ns), fit.sync_error),
                  fmt::format("{} ± {:.2g}", number_text(fit.work_ns), fit.work_error),
                  fmt::format("{:.1f} %", fit.rms_residual * 100),
                  fmt::format("{:.1f} %", fit.worst_residual * 100),
                  fmt::format("{:.1f} %", model.hold_out * 100), fmt::format("{:.2f}", fit.overlap),
                  fmt::format("{}", fit.samples)});
    }
  return out.empty() ? out : out + "\n";
}

std::string verdicts(std::vector<NamedProbe> const& probes) {
  auto const found = verdict_rows(probes);
  if (found.empty()) return "";
  std::vector<std::string> heads{"", "what was done"};
  for (auto const& probe : probes) heads.push_back(probe.name);
  auto out = "## What held\n\n" + row(heads) + rule(heads.size(), 0);
  for (auto const& one : found) {
    std::vector<std::string> cells{"`" + one.id + "`", one.what};
    for (auto const* verdict : one.values)
      cells.push_back(verdict == nullptr ? ""
                                         : "**" + verdict->answer + "**" +
                                               (verdict->note.empty() ? "" : ": " + verdict->note));
    out += row(cells);
  }
  return out + "\n";
}

}  // namespace

std::string probe_markdown(std::vector<NamedProbe> const& probes) {
  auto out = fmt::format("# What synchronization costs: {}\n\n", probes.front().name);
  std::vector<std::string> heads{""};
  for (auto const& probe : probes) heads.push_back(probe.name);
  out += row(heads) + rule(1 + probes.size(), 0);
  for (auto const& one : identity_rows(probes)) {
    std::vector<std::string> cells{one.name};
    cells.insert(cells.end(), one.values.begin(), one.values.end());
    out += row(cells);
  }
  out +=
      "\nValues are medians ± the deviation of one cost (Eq. 8 of Zhang et al., IPDPS 2020, where it is a "
      "difference).\n\n";
  if (auto const first = headlines(probes.front().probe); !first.empty()) {
    out += row({probes.front().name, ""}) + rule(1, 1);
    for (auto const& one : first) out += row({one.what, one.value});
    out += "\n";
  }
  auto const sections = probe_sections(probes);
  out += side_by_side(sections, probes);
  for (auto const& section : sections) {
    out += "## " + section.title + "\n\n";
    if (!section.about.empty()) out += section.about + "\n\n";
    out += single_values(section, probes);
    for (auto const& curve : section.curves)
      if (curve.points.size() > 1) out += curve_table(curve, probes);
  }
  out += models(probes) + verdicts(probes);
  return out + fmt::format("tessera {}\n", k_version);
}

}  // namespace tessera
