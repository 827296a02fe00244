// SPDX-License-Identifier: Apache-2.0
#include "tessera/sweep/sensitivity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sweep/finding.hpp"

namespace tessera {
namespace {

/// One side: `direction` is -1 or 1.
std::string side(Parameter const& parameter, double value, double by, int direction,
                 std::function<bool(SweepSetting const&)> const& valid) {
  auto next = value * (1 + direction * by);
  if (parameter.kind == Parameter::Kind::whole) {
    next = std::round(next);
    if (next == value) next += direction;
  }
  next = std::clamp(next, parameter.least, parameter.most);
  // A power of two has no other neighbours.
  for (double const candidate : {next, direction > 0 ? value * 2 : value / 2}) {
    // Twelve digits: 50 * 1.1 is 55, not 55.00000000000001.
    auto const text = value_text(parameter, fmt::format("{:.12g}", candidate));
    if (text && candidate != value && valid({parameter.name, *text})) return *text;
  }
  return "";
}

double number(std::string const& text) { return number_of(text).value_or(0); }

}  // namespace

std::vector<Nudge> nudges(std::vector<Parameter> const& parameters, MachineProfile const& machine, double by,
                          std::function<bool(SweepSetting const&)> const& valid) {
  std::vector<Nudge> list;
  for (auto const& parameter : parameters) {
    bool const number = parameter.kind == Parameter::Kind::whole || parameter.kind == Parameter::Kind::real;
    auto const value = machine_number(machine, parameter.name);
    if (!number || !parameter.read || !value || *value == 0) continue;
    list.push_back({parameter, number_text(*value), side(parameter, *value, by, -1, valid),
                    side(parameter, *value, by, 1, valid)});
  }
  return list;
}

std::optional<double> elasticity(Sensitivity const& s) {
  if ((!s.at_lower && !s.at_higher) || s.base == 0) return {};
  double const value = number(s.nudge.value);
  double const from = s.at_lower ? number(s.nudge.lower) : value;
  double const to = s.at_higher ? number(s.nudge.higher) : value;
  double const change = s.at_higher.value_or(s.base) - s.at_lower.value_or(s.base);
  return change / s.base / ((to - from) / value);
}

void sort_by_elasticity(std::vector<Sensitivity>& sensitivities) {
  auto const size = [](Sensitivity const& s) { return s.elasticity ? std::abs(*s.elasticity) : -1; };
  std::stable_sort(sensitivities.begin(), sensitivities.end(),
                   [&](Sensitivity const& a, Sensitivity const& b) { return size(a) > size(b); });
}

Expected<double> parse_percent(std::string const& text) {
  auto const percent = number_of(text.substr(0, text.size() - (text.ends_with('%') ? 1 : 0)));
  if (percent && *percent > 0 && *percent < 1 && !text.ends_with('%'))
    return refuse(finding("E0921",
                          fmt::format("--by: \"{}\" may be meant as {}% or as {}%", text,
                                      number_text(*percent), number_text(*percent * 100)),
                          fmt::format("--by {}%", number_text(*percent * 100))));
  if (percent && *percent > 0 && *percent < 100) return *percent / 100;
  return refuse(finding("E0921", fmt::format("--by: \"{}\" is no share from above 0 % to below 100 %", text),
                        "--by 10%"));
}

}  // namespace tessera
