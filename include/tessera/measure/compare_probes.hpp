// SPDX-License-Identifier: Apache-2.0
// Two probes of the same kind of machine: what repeats, and by how much the rest differs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "probe.hpp"

namespace tessera {

enum class Agreement {
  agrees,        ///< within the tolerance
  within_noise,  ///< farther apart, but no farther than what one of the runs spreads by itself
  differs,
  only_before,
  only_after,
};

struct FigureChange {
  std::string id, unit;
  std::map<std::string, double> at;
  double before = 0, after = 0;  ///< medians; 0 where it was not measured
  double change = 0;             ///< after / before - 1
  double spread = 0;             ///< the wider of the two: (p95 - p05) over the median
  Agreement agreement = Agreement::agrees;
};

/// Two runs as one, of experiments that do not fit one machine or one time: figures of `part` replace those
/// of the same id and conditions, verdicts those of the same id, and models of tau those of the same
/// mechanism. All others of `whole` are kept. Keeps `whole`'s identity and notes `part`'s.
Probe joined(Probe whole, Probe const& part);

/// In the order of `before`, then what is only in `after`. Figures are the same if id and conditions are; a
/// curve whose points repeat a condition is paired in order.
std::vector<FigureChange> compare(Probe const& before, Probe const& after, double tolerance = 0.05);

}  // namespace tessera
