// SPDX-License-Identifier: Apache-2.0
// Small inline SVG pictures of curves, with the reports' colours.
#pragma once

#include <string>
#include <vector>

#include "report/probe_tables.hpp"

namespace tessera::report {

/// One line for each probe over the curve's one varying condition; "" where there are fewer than three points
/// or more than one condition. Axes are logarithmic where values span more than a factor of ten.
std::string curve_plot(ProbeCurve const& curve, std::vector<NamedProbe> const& probes);

/// For curves of two varying conditions whose points fill at least half of the table: the first probe's
/// values, darker is more; "" for others.
std::string heat_map(ProbeCurve const& curve);

/// Time of a unit of work against units a synchronization: measured points over fitted lines.
std::string tau_plot(std::vector<TauModel> const& models);

/// What these pictures add to the reports' style.
extern char const* const k_probe_style;

}  // namespace tessera::report
