// SPDX-License-Identifier: Apache-2.0
#include "tessera/measure/compare_probes.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

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

/// `list` with what `by` has of the same key in its place, paired in order where a key repeats. What is new
/// comes behind the others.
template <class One, class Key>
std::vector<One> replaced(std::vector<One> list, std::vector<One> const& by, Key const& key) {
  using Place = std::pair<decltype(key(by.front())), int>;
  auto const numbered = [&](std::vector<One> const& all) {
    std::map<decltype(key(by.front())), int> seen;
    std::vector<Place> places;
    for (auto const& one : all) places.emplace_back(key(one), seen[key(one)]++);
    return places;
  };
  std::map<Place, std::size_t> where;
  for (auto const& place : numbered(list)) where.emplace(place, where.size());
  auto const places = numbered(by);
  for (std::size_t i = 0; i < by.size(); ++i)
    if (auto const found = where.find(places[i]); found != where.end())
      list[found->second] = by[i];
    else
      list.push_back(by[i]);
  return list;
}

}  // namespace

Probe joined(Probe whole, Probe const& part) {
  whole.figures = replaced(std::move(whole.figures), part.figures,
                           [](Figure const& one) { return std::pair(one.id, one.at); });
  // Points of one curve stand together.
  std::map<std::string, std::size_t> first;
  for (std::size_t i = 0; i < whole.figures.size(); ++i) first.emplace(whole.figures[i].id, i);
  std::stable_sort(whole.figures.begin(), whole.figures.end(),
                   [&](Figure const& a, Figure const& b) { return first[a.id] < first[b.id]; });
  whole.verdicts = replaced(std::move(whole.verdicts), part.verdicts, [](auto const& one) { return one.id; });
  whole.tau = replaced(std::move(whole.tau), part.tau, [](auto const& one) { return one.mechanism; });
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
