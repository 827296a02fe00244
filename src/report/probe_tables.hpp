// SPDX-License-Identifier: Apache-2.0
// Probes' figures put in order: sections by level, curves by id, points with one cell for each probe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/report/probe.hpp"

namespace tessera::report {

struct ProbePoint {
  std::map<std::string, double> at;   ///< of the first probe that has it
  std::vector<Figure const*> values;  ///< one for each probe; null: not measured there
};

/// All figures of one id. `varying` are the conditions that tell its points apart, without
/// those that follow from another.
struct ProbeCurve {
  Figure const* figure = nullptr;  ///< says what, unit, method, validity
  std::map<std::string, double> fixed;
  std::vector<std::string> varying;
  std::vector<ProbePoint> points;
};

struct ProbeSection {
  std::string title, about;
  std::vector<ProbeCurve> curves;
};

/// Which probes have something of a curve.
std::vector<std::size_t> measured_by(ProbeCurve const& curve);

std::vector<ProbeSection> probe_sections(std::vector<NamedProbe> const& probes);

/// What a reader looks for first, of those that the first probe has: ("hop between two SMs", "612 ns").
struct Headline {
  std::string what, value;
};
std::vector<Headline> headlines(Probe const& probe);

/// Rows of the first probe that another has too, as (curve, point) into `sections`.
struct SharedRow {
  ProbeCurve const* curve = nullptr;
  ProbePoint const* point = nullptr;
};
std::vector<SharedRow> shared_rows(std::vector<ProbeSection> const& sections);

/// Four digits that matter; whole numbers whole.
std::string number_text(double value);
/// The same; bytes as KiB, MiB, GiB.
std::string condition_value(std::string const& name, double value);

/// "threads 256, blocks_per_sm 2"; underscores become spaces.
std::string conditions_text(std::map<std::string, double> const& at);
std::string condition_name(std::string name);

/// "14.6 ± 0.2"; the deviation is left out where it would show as nothing.
std::string value_text(Figure const& figure);

struct IdentityRow {
  std::string name;
  std::vector<std::string> values;
};
std::vector<IdentityRow> identity_rows(std::vector<NamedProbe> const& probes);

struct VerdictRow {
  std::string id, what;
  std::vector<Verdict const*> values;
};
std::vector<VerdictRow> verdict_rows(std::vector<NamedProbe> const& probes);

}  // namespace tessera::report
