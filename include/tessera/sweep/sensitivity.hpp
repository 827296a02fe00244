// SPDX-License-Identifier: Apache-2.0
// Which numbers of a machine a result depends on most: each is changed a little, down and up.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "parameter.hpp"

namespace tessera {

/// A number with the values on both sides at which it is tried; empty where there is none.
struct Nudge {
  Parameter parameter;
  std::string value, lower, higher;

  bool operator==(Nudge const&) const = default;
};

/// For every number of the machine that is read and not 0. `by` is a share, 0.1 for 10 %; whole numbers go to
/// the nearest whole one, at least by 1. Where `valid` refuses that (powers of two), half and double are
/// tried. Values stay in the parameter's range.
std::vector<Nudge> nudges(std::vector<Parameter> const& parameters, MachineProfile const& machine, double by,
                          std::function<bool(SweepSetting const&)> const& valid);

struct Sensitivity {
  Nudge nudge;
  std::optional<double> at_lower, at_higher;  ///< the result there; none where refused or not tried
  double base = 0;                            ///< the result with nothing changed
  std::optional<double> elasticity;           ///< percent of the result for a percent of the number

  bool operator==(Sensitivity const&) const = default;
};

/// The slope between the two sides (or the one there is and the base) over base and value.
std::optional<double> elasticity(Sensitivity const& sensitivity);

/// By the size of the elasticity, largest first; those without one last. Ties keep their order.
void sort_by_elasticity(std::vector<Sensitivity>& sensitivities);

/// "10%" or "10": 0.1. E0921 unless it is above 0 and below 100 %, and for "0.1": whoever means a tenth of a
/// percent writes the sign.
Expected<double> parse_percent(std::string const& text);

}  // namespace tessera
