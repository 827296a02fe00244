// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "report/text.hpp"
#include "report/timeline_sums.hpp"
#include "report/tracks.hpp"
#include "tessera/report/report.hpp"

namespace tessera {
namespace {

using namespace report;

constexpr std::size_t k_most_boundaries = 16;

std::string delta(std::int64_t before, std::int64_t after) {
  return fmt::format("{} ({})", us_of(after), signed_us(static_cast<double>(after - before) * 1e-6));
}

std::string change(double before, double after) { return fmt::format("{:+.2f}", after - before); }

/// Where the time of a stage's blocks went, and the boundaries between them; empty unless both runs tell.
std::string blocks_diff(Timeline const& before, std::size_t b, Timeline const& after, std::size_t a) {
  if (!tells_causes(before) || !tells_causes(after)) return "";
  auto const& name = before.stages[b].name;
  std::vector<std::vector<std::string>> rows{
      {name + ": where a slot's time went", "before us", "after us", "change"}};
  auto const then = time_parts(before, b), now = time_parts(after, a);
  for (std::size_t p = 0; p < then.size(); ++p)
    rows.push_back(
        {then[p].name, us_number(then[p].us), us_number(now[p].us), change(then[p].us, now[p].us)});
  auto text = '\n' + table(rows, {1, 2, 3}, 2);

  auto const old_gaps = boundaries(before, b), new_gaps = boundaries(after, a);
  auto const common = std::min(old_gaps.size(), new_gaps.size());
  std::vector<std::size_t> shown(common);
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  std::stable_sort(shown.begin(), shown.end(), [&](auto x, auto y) {
    return std::abs(new_gaps[x] - old_gaps[x]) > std::abs(new_gaps[y] - old_gaps[y]);
  });
  shown.resize(std::min(common, k_most_boundaries));
  std::sort(shown.begin(), shown.end());
  rows = {{name + ": between two main loops", "before us", "after us", "change"}};
  for (auto const n : shown)
    rows.push_back({fmt::format("blocks {} and {} of a slot", n + 1, n + 2), us_number(old_gaps[n] * 1e-6),
                    us_number(new_gaps[n] * 1e-6), change(old_gaps[n] * 1e-6, new_gaps[n] * 1e-6)});
  if (shown.empty()) return text;
  text += '\n' + table(rows, {1, 2, 3}, 2);
  if (common > shown.size()) text += fmt::format("  and {} that changed less\n", common - shown.size());
  return text;
}

std::string tracks_diff(Timeline const& before, Timeline const& after) {
  if (before.tracks.empty() && after.tracks.empty()) return "";
  std::vector<std::vector<std::string>> rows{{"row", "first", "last", "busy", "MB"}};
  auto const then = totals_of_tracks(before), now = totals_of_tracks(after);
  for (std::size_t b = 0; b < before.tracks.size(); ++b) {
    auto const name = track_name(before, before.tracks[b]);
    auto const found = std::find_if(after.tracks.begin(), after.tracks.end(),
                                    [&](auto const& t) { return track_name(after, t) == name; });
    if (found == after.tracks.end()) {
      rows.push_back({name, "only before"});
      continue;
    }
    auto const& was = then[b];
    auto const& is = now[static_cast<std::size_t>(found - after.tracks.begin())];
    rows.push_back({name, delta(was.first, is.first), delta(was.last, is.last), delta(was.busy, is.busy),
                    fmt::format("{:.1f}", static_cast<double>(is.bytes) * 1e-6)});
  }
  for (auto const& track : after.tracks)
    if (std::none_of(before.tracks.begin(), before.tracks.end(),
                     [&](auto const& t) { return track_name(before, t) == track_name(after, track); }))
      rows.push_back({track_name(after, track), "only after"});
  return '\n' + table(rows, {1, 2, 3, 4}, 2);
}

std::string variant_text(std::string const& variant) { return variant.empty() ? "first choice" : variant; }

}  // namespace

std::string diff(Timeline const& before, Timeline const& after) {
  auto text = labelled("before", name_of(before)) + labelled("after", name_of(after));
  auto total = fmt::format("{} -> {}: {}", us_of(before.end), us_of(after.end),
                           signed_us(static_cast<double>(after.end - before.end) * 1e-6));
  if (before.end > 0)
    total += fmt::format(", {:+.1f} %",
                         (static_cast<double>(after.end) / static_cast<double>(before.end) - 1) * 100);
  text += labelled("total", total);
  text += labelled("waves", fmt::format("{:g} -> {:g}", before.waves, after.waves));
  text += labelled("busy", fmt::format("{} -> {}", percent(before.busy), percent(after.busy))) + '\n';

  std::vector<std::vector<std::string>> rows{{"stage", "start", "end", "waiting, all blocks"}};
  std::string variants;
  bool const with_waits = !before.tiles.empty() && !after.tiles.empty();
  for (std::size_t b = 0; b < before.stages.size(); ++b) {
    auto const& name = before.stages[b].name;
    auto const found =
        std::find_if(after.stages.begin(), after.stages.end(), [&](auto const& s) { return s.name == name; });
    if (found == after.stages.end()) {
      rows.push_back({name, "only before"});
      continue;
    }
    if (auto const& then = before.stages[b].variant, &now = found->variant; then != now)
      variants +=
          labelled("variant", fmt::format("{}: {} -> {}", name, variant_text(then), variant_text(now)));
    auto const then = totals(before, b);
    auto const now = totals(after, static_cast<std::size_t>(found - after.stages.begin()));
    rows.push_back({name, delta(then.start, now.start), delta(then.end, now.end),
                    with_waits ? delta(then.waiting, now.waiting) : "not recorded"});
  }
  for (auto const& stage : after.stages)
    if (std::none_of(before.stages.begin(), before.stages.end(),
                     [&](auto const& s) { return s.name == stage.name; }))
      rows.push_back({stage.name, "only after"});
  text += table(rows, {1, 2, 3}, 2) + variants;
  for (std::size_t b = 0; b < before.stages.size(); ++b)
    for (std::size_t a = 0; a < after.stages.size(); ++a)
      if (before.stages[b].name == after.stages[a].name) text += blocks_diff(before, b, after, a);
  return text + tracks_diff(before, after);
}

}  // namespace tessera
