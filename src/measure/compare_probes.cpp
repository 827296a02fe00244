// SPDX-License-Identifier: Apache-2.0
#include "tessera/measure/compare_probes.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace tessera {
namespace {

double spread(Figure const& f) { return f.median != 0 ? (f.p95 - f.p05) / std::fabs(f.median) : 0; }

FigureChange of_one(Figure const& figure, bool before) {
  FigureChange change{figure.id, figure.unit, figure.at};
  (before ? change.before : change.after) = figure.median;
  change.spread = spread(figure);
  change.agreement = before ? Agreement::only_before : Agreement::only_after;
  return change;
}

FigureChange of_both(Figure const& a, Figure const& b, double tolerance) {
  FigureChange change{a.id, a.unit, a.at};
  change.before = a.median;
  change.after = b.median;
  change.change = a.median != 0 ? b.median / a.median - 1 : (b.median == 0 ? 0 : INFINITY);
  change.spread = std::max(spread(a), spread(b));
  double const off = std::fabs(change.change);
  change.agreement = off <= tolerance       ? Agreement::agrees
                     : off <= change.spread ? Agreement::within_noise
                                            : Agreement::differs;
  return change;
}

}  // namespace

Probe joined(Probe whole, Probe const& part) {
  auto const level = [](auto const& one) { return one.id.substr(0, one.id.find('.')); };
  std::set<std::string> levels;
  for (auto const& figure : part.figures) levels.insert(level(figure));
  for (auto const& verdict : part.verdicts) levels.insert(level(verdict));
  auto const replace = [&](auto& list, auto const& by) {
    list.erase(std::remove_if(list.begin(), list.end(),
                              [&](auto const& one) { return levels.count(level(one)) != 0; }),
               list.end());
    list.insert(list.end(), by.begin(), by.end());
  };
  replace(whole.figures, part.figures);
  replace(whole.verdicts, part.verdicts);
  if (!part.tau.empty()) whole.tau = part.tau;
  whole.seconds += part.seconds;
  whole.quick = whole.quick || part.quick;
  whole.identity.gpus = std::max(whole.identity.gpus, part.identity.gpus);
  whole.also.push_back(part.identity);
  whole.also.insert(whole.also.end(), part.also.begin(), part.also.end());
  return whole;
}

std::vector<FigureChange> compare(Probe const& before, Probe const& after, double tolerance) {
  std::vector<FigureChange> changes;
  std::vector<bool> used(after.figures.size(), false);
  for (auto const& a : before.figures) {
    std::size_t i = 0;
    while (i < after.figures.size() &&
           (used[i] || after.figures[i].id != a.id || after.figures[i].at != a.at))
      ++i;
    if (i == after.figures.size()) {
      changes.push_back(of_one(a, true));
    } else {
      used[i] = true;
      changes.push_back(of_both(a, after.figures[i], tolerance));
    }
  }
  for (std::size_t i = 0; i < after.figures.size(); ++i)
    if (!used[i]) changes.push_back(of_one(after.figures[i], false));
  return changes;
}

}  // namespace tessera
