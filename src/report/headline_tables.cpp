// SPDX-License-Identifier: Apache-2.0
#include "report/headline_tables.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/study_cells.hpp"

namespace tessera::report {

StudyTable headline_table(std::vector<Headline> const& rows) {
  StudyTable t{
      "headlines",
      "What the paper states, and what came out",
      "A row is reproduced if it is within the tolerance and the mechanism that the paper credits did it: "
      "all "
      "controls of the row hold (next table). It comes by other means if it is within the tolerance and a "
      "control does not hold. Tolerances: 3 % of ideal overlap, 5 % of fused runs, 4 points of memory "
      "traffic, 0.1 and 0.2 of reads, 0.02 of writes, 7 % or points of figure 6, 2 points of a "
      "reduce-scatter "
      "near memory. What is "
      "missed is shown as missed; docs/t3.md says why.",
      {"row", "here", "paper", "counts as the paper's", "verdict", "held to"},
      {},
      {}};
  for (auto const& h : rows) {
    auto const verdict = h.verdict();
    bool const compared = verdict != Reproduction::not_comparable;
    std::string held;
    for (auto const& control : h.controls) held += (held.empty() ? "" : "; ") + control.name;
    t.rows.push_back({h.name, h.value, compared ? StudyCell(h.paper) : StudyCell("-"),
                      compared ? fmt::format("{} to {}", cell_text(h.least), cell_text(h.most)) : "",
                      to_text(verdict), held});
  }
  t.wide_columns = {5};
  t.verdict_column = 4;
  return t;
}

StudyTable control_table(std::vector<Headline> const& rows) {
  StudyTable t{
      "controls",
      "What each row is held to",
      "The row's quantity with a mechanism switched off, or what else only that mechanism moves; and "
      "what it has to be for the mechanism to be credited.",
      {"row", "control", "row's value", "control's", "has to be", "holds"},
      {},
      {}};
  t.wide_columns = {2};
  for (auto const& h : rows)
    for (auto const& c : h.controls)
      t.rows.push_back({h.name, c.name, h.value, c.value, c.need,
                        c.need.empty() ? ""
                        : c.holds      ? "yes"
                                       : "no"});
  return t;
}

StudyTable range_table(OverlapStudy const& study, std::vector<Headline> const& rows) {
  StudyTable t{"range", "The range of each result over the whole sweep",
               "",      {"row", "least", "study", "most"},
               {},      {}};
  struct Ranged {
    char const* name;
    double SweepPoint::*member;
    double unit;
  };
  constexpr Ranged ranged[] = {{"ideal overlap, geometric mean", &SweepPoint::ideal, 1},
                               {"T3, geometric mean", &SweepPoint::t3, 1},
                               {"T3, most", &SweepPoint::t3_most, 1},
                               {"T3-MCA, geometric mean", &SweepPoint::t3_mca, 1},
                               {"T3-MCA, most", &SweepPoint::t3_mca_most, 1},
                               {"memory traffic saved, mean, %", &SweepPoint::traffic_saved, 100}};
  for (auto const& [name, member, unit] : ranged) {
    auto const* here = headline_value(rows, name);
    if (here == nullptr || study.sweep.empty()) continue;
    double least = *here;
    double most = least;
    for (auto const& p : study.sweep) {
      least = std::min(least, unit * p.*member);
      most = std::max(most, unit * p.*member);
    }
    t.rows.push_back({name, least, *here, most});
  }
  return t;
}

}  // namespace tessera::report
