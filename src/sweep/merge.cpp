// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "diagnostic/nearest.hpp"
#include "sweep/finding.hpp"
#include "tessera/sweep/table.hpp"

namespace tessera {
namespace {

constexpr std::size_t k_named = 10;

/// "points 3, 7 and 9", and how many more.
std::string points_text(std::vector<std::size_t> const& points) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(points.size(), k_named); ++i)
    names.push_back(std::to_string(points[i] + 1));
  if (points.size() > k_named) names.push_back(fmt::format("{} more", points.size() - k_named));
  return fmt::format("point{} {}", points.size() == 1 ? "" : "s", list_of(names));
}

Diagnostic different(std::string const& a, std::string const& b) {
  return finding(
      "E0924", fmt::format("{} and {} are of different sweeps", a, b),
      "the shares of one sweep have the same machine, the same --set and the same options, but for --shard");
}

}  // namespace

Expected<SweepTable> merge(std::vector<std::pair<std::string, SweepTable>> const& shares) {
  SweepTable all = shares.front().second;
  all.rows.clear();
  std::map<std::size_t, std::size_t> from;
  Diagnostics found;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    auto const& [file, table] = shares[i];
    // A share without points says nothing of the sweep but its columns.
    if (table.points > 0 && all.points == 0) all.sweep = table.sweep, all.points = table.points;
    bool const same = table.axes == all.axes && table.results == all.results &&
                      (table.points == 0 || (table.sweep == all.sweep && table.points == all.points));
    if (!same) return refuse(different(shares.front().first, file));
    std::vector<std::size_t> twice;
    std::size_t other = i;
    for (auto const& row : table.rows) {
      auto const [it, first] = from.emplace(row.point, i);
      if (!first) twice.push_back(row.point), other = it->second;
      all.rows.push_back(row);
    }
    if (!twice.empty())
      found.push_back(finding(
          "E0924",
          fmt::format("{} of {} {} also in {}", points_text(twice), file, twice.size() == 1 ? "is" : "are",
                      other == i ? "another line of it" : shares[other].first),
          "name every share once"));
  }
  std::vector<std::size_t> missing;
  for (std::size_t point = 0; point < all.points; ++point)
    if (from.count(point) == 0) missing.push_back(point);
  if (!missing.empty())
    found.push_back(finding("E0924",
                            fmt::format("{} of {} {} in none of the files", points_text(missing), all.points,
                                        missing.size() == 1 ? "is" : "are"),
                            "run their shares, or continue those that were interrupted, and merge again"));
  if (!found.empty()) return tl::make_unexpected(found);
  std::sort(all.rows.begin(), all.rows.end(),
            [](SweepRow const& a, SweepRow const& b) { return a.point < b.point; });
  return all;
}

Expected<std::vector<SweepRow>> rows_to_keep(SweepTable const& file, std::string const& name,
                                             SweepTable const& wanted) {
  std::map<std::string, SweepRow const*> points;
  for (auto const& row : wanted.rows) points.emplace(row.inputs, &row);
  bool const same_columns = file.axes == wanted.axes && file.results == wanted.results;
  std::vector<SweepRow> kept;
  bool same_places = file.points == wanted.points;
  for (auto const& row : file.rows) {
    auto const found = points.find(row.inputs);
    if (found == points.end() || !same_columns || row.values != found->second->values) continue;
    kept.push_back(row);
    kept.back().point = found->second->point;
    same_places = same_places && row.point == found->second->point;
  }
  if (kept.size() < file.rows.size())
    return refuse(
        finding("E0923",
                fmt::format("{} of its {} rows {} not of this sweep", file.rows.size() - kept.size(),
                            file.rows.size(), file.rows.size() - kept.size() == 1 ? "is" : "are"),
                "name another file; --fresh replaces the file and computes all points again", name));
  // More values make another sweep, in which points are elsewhere; the same one is the same all over.
  bool const whole = file.rows.size() == file.points;
  bool const same_sweep = file.sweep == wanted.sweep;
  if (!file.rows.empty() && ((same_sweep && !same_places) || (!same_sweep && same_places && whole)))
    return refuse(finding("E0923",
                          same_sweep ? "its points have other numbers than this sweep, whose name it has"
                                     : "all of its points are this sweep's, and it has another's name",
                          "name another file; --fresh replaces the file and computes all points again",
                          name));
  return kept;
}

}  // namespace tessera
