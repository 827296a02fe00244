// SPDX-License-Identifier: Apache-2.0
// Probes for a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/probe_tables.hpp"
#include "report/text.hpp"

namespace tessera {

using namespace report;

std::string probe_text(Probe const& probe) {
  std::string out;
  std::vector<NamedProbe> const one{{"", probe}};
  for (auto const& row : identity_rows(one))
    if (!row.values.front().empty()) out += labelled(row.name, row.values.front(), 0, 28);
  for (auto const& section : probe_sections(one)) {
    std::vector<std::vector<std::string>> rows{{section.title, "", "unit", "at"}};
    for (auto const& curve : section.curves)
      for (auto const& point : curve.points) {
        auto const& figure = *point.values.front();
        rows.push_back({figure.id, value_text(figure), figure.unit, conditions_text(figure.at)});
      }
    out += "\n" + table(rows, {1}, 0);
  }
  if (!probe.tau.empty()) {
    std::vector<std::vector<std::string>> rows{
        {"model", "lambda ns", "tau ns", "residual", "hold-out", "exponent"}};
    for (auto const& model : probe.tau)
      rows.push_back({model.mechanism, number_text(model.fit.sync_ns), number_text(model.fit.work_ns),
                      percent(model.fit.rms_residual), percent(model.hold_out),
                      fmt::format("{:.2f}", model.fit.overlap)});
    out += "\n" + table(rows, {1, 2, 3, 4, 5}, 0);
  }
  if (!probe.verdicts.empty()) out += "\n";
  for (auto const& verdict : probe.verdicts)
    out +=
        labelled(verdict.answer,
                 verdict.id + ": " + verdict.what + (verdict.note.empty() ? "" : "; ") + verdict.note, 0, 14);
  return out;
}

std::string comparison_text(std::vector<FigureChange> const& changes, double tolerance, bool all) {
  std::vector<std::vector<std::string>> rows{{"figure", "before", "after", "unit", "change", "spread", "at"}};
  int count[5] = {};
  double worst = 0;
  for (auto const& change : changes) {
    ++count[static_cast<int>(change.agreement)];
    bool const both = change.agreement != Agreement::only_before && change.agreement != Agreement::only_after;
    if (both && std::isfinite(change.change)) worst = std::max(worst, std::fabs(change.change));
    if (!all && change.agreement != Agreement::differs) continue;
    rows.push_back({change.id, change.agreement == Agreement::only_after ? "" : number_text(change.before),
                    change.agreement == Agreement::only_before ? "" : number_text(change.after), change.unit,
                    both ? fmt::format("{:+.1f} %", change.change * 100) : "", percent(change.spread),
                    conditions_text(change.at)});
  }
  auto out = fmt::format(
      "{} repeat within {}, {} within their own spread, {} differ, {} only before, {} only after; "
      "largest change {}\n",
      count[0], percent(tolerance), count[1], count[2], count[3], count[4], percent(worst));
  if (rows.size() > 1) out += table(rows, {1, 2, 4, 5}, 0);
  return out;
}

}  // namespace tessera
