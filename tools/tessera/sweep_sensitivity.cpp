// SPDX-License-Identifier: Apache-2.0
#include "sweep_sensitivity.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "diagnostic/nearest.hpp"

namespace tessera::cli {

Expected<std::vector<Sensitivity>> sensitivities(Session const& session, SweepSubject const& subject,
                                                 SweepGrid const& grid, double by, std::string const& result,
                                                 RunOptions const& options) {
  auto const columns = subject.results(grid);
  auto const column =
      static_cast<std::size_t>(std::find(columns.begin(), columns.end(), result) - columns.begin());
  if (column == columns.size())
    return tl::make_unexpected(complaint("E0920", fmt::format("there is no result \"{}\"", result),
                                         did_you_mean(result, columns), {"results: " + list_of(columns)}));
  auto const base = grid.point(0);
  auto const with = [&](SweepSetting const& setting) {
    auto settings = base;
    settings.push_back(setting);
    return settings;
  };
  auto const valid = [&](SweepSetting const& setting) {
    return contradictions(subject.machine(with(setting))).empty();
  };
  auto const list = nudges(subject.parameters, subject.machine(base), by, valid);

  std::vector<std::vector<SweepSetting>> points{base};
  for (auto const& nudge : list)
    for (auto const& value : {nudge.lower, nudge.higher})
      if (!value.empty()) points.push_back(with({nudge.parameter.name, value}));
  auto const results = run_points(session, subject, columns, points, options, {});
  for (auto const& one : results)
    if (!one && (&one == &results.front() || one.error().front().code.rfind("E09", 0) == 0))
      return tl::make_unexpected(one.error());
  auto const at = [&](std::size_t point) {
    return results[point] ? number_of((*results[point])[column]) : std::nullopt;
  };
  if (!at(0))
    return tl::make_unexpected(
        complaint("E0920", fmt::format("{} is no number: \"{}\"", result, (*results.front())[column]), "",
                  {"results: " + list_of(columns)}));
  std::vector<Sensitivity> found;
  std::size_t next = 1;
  for (auto const& nudge : list) {
    Sensitivity one{nudge, {}, {}, *at(0), {}};
    if (!nudge.lower.empty()) one.at_lower = at(next++);
    if (!nudge.higher.empty()) one.at_higher = at(next++);
    one.elasticity = elasticity(one);
    found.push_back(std::move(one));
  }
  sort_by_elasticity(found);
  return found;
}

}  // namespace tessera::cli
