// SPDX-License-Identifier: Apache-2.0
// From a cost or a set of samples to a figure of the probe.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/measure/probe.hpp"
#include "tessera/measure/statistics.hpp"

namespace tessera::probe {

/// What a figure is, without its value. `Figure::valid` and `verified` are for the caller to set.
struct Subject {
  std::string id, what, unit, method;
  std::map<std::string, double> at = {};
  std::string valid = {};
};

/// `scale` turns the cost's unit into the subject's.
inline Figure figure_of(Subject subject, Cost const& cost, double scale = 1) {
  Figure f;
  f.id = std::move(subject.id);
  f.what = std::move(subject.what);
  f.unit = std::move(subject.unit);
  f.method = std::move(subject.method);
  f.at = std::move(subject.at);
  f.valid = std::move(subject.valid);
  f.median = cost.median * scale;
  f.deviation = cost.deviation * scale;
  f.p05 = cost.p05 * scale;
  f.p95 = cost.p95 * scale;
  f.samples = cost.samples;
  return f;
}

inline Figure figure_of(Subject subject, std::vector<double> samples, double scale = 1) {
  auto const s = summarize(std::move(samples));
  return figure_of(std::move(subject), Cost{s.median, s.deviation, s.p05, s.p95, s.samples}, scale);
}

/// The same cost as a rate: `per` repetitions' worth of it in one unit of time. p05 stays below p95.
inline Figure rate_of(Subject subject, Cost const& cost, double per) {
  auto f = figure_of(std::move(subject), cost);
  auto const rate = [&](double value) { return value > 0 ? per / value : 0; };
  f.median = rate(cost.median);
  f.deviation = cost.median > 0 ? f.median * cost.deviation / cost.median : 0;
  f.p05 = rate(cost.p95);
  f.p95 = rate(cost.p05);
  return f;
}

}  // namespace tessera::probe
