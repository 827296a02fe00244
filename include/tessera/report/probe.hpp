// SPDX-License-Identifier: Apache-2.0
// What probes found, side by side: for a terminal, a document, a browser. Formatting only; figures with the
// same id and the same conditions share a row, so that a paper's figures are one more probe.
#pragma once

#include <string>
#include <vector>

#include "../measure/compare_probes.hpp"
#include "../measure/probe.hpp"

namespace tessera {

struct NamedProbe {
  std::string name;  ///< heads its column
  Probe probe;
};

/// One line for each figure, <= 100 columns.
std::string probe_text(Probe const& probe);

/// Precondition for both: at least one probe. The first one's figures give the order.
std::string probe_markdown(std::vector<NamedProbe> const& probes);
std::string probe_html(std::vector<NamedProbe> const& probes);

/// How many figures repeat within the tolerance, and a row for each that differs; all rows if `all`.
std::string comparison_text(std::vector<FigureChange> const& changes, double tolerance, bool all = false);

}  // namespace tessera
