// SPDX-License-Identifier: Apache-2.0
// A run in a few lines.
#include <fmt/format.h>

#include "report/text.hpp"
#include "report/timeline_sums.hpp"
#include "report/tracks.hpp"
#include "tessera/report/report.hpp"

namespace tessera {

using namespace report;

std::string summary(Timeline const& timeline) {
  auto text = labelled(timeline.measured ? "measured" : "simulated", name_of(timeline));
  text +=
      labelled("total", timeline.by_launch ? us_of(timeline.end) + ", measured by launch"
                                           : fmt::format("{}, {:g} waves, SMs busy {}", us_of(timeline.end),
                                                         timeline.waves, percent(timeline.busy)));
  if (timeline.dram_bytes > 0)
    text += labelled("DRAM", fmt::format("{:.2f} MB, {} {} of the time", timeline.dram_bytes * 1e-6,
                                         timeline.counters.empty() ? "the limiter for" : "its bus busy",
                                         percent(timeline.dram_busy)));
  std::vector<std::vector<std::string>> rows{
      {"stage", "tiles", "start us", "end us", "waiting us, all blocks"}};
  for (std::size_t s = 0; s < timeline.stages.size(); ++s) {
    auto const& span = timeline.stages[s];
    auto const sums = totals(timeline, s);
    rows.push_back(
        {span.name, std::to_string(span.tiles) + (span.splits > 1 ? fmt::format(" * {}", span.splits) : ""),
         us_number(static_cast<double>(sums.start) * 1e-6), us_number(static_cast<double>(sums.end) * 1e-6),
         timeline.tiles.empty() ? "-" : us_number(static_cast<double>(sums.waiting) * 1e-6)});
  }
  text += '\n' + table(rows, {1, 2, 3, 4}, 2);
  if (tells_causes(timeline))
    for (std::size_t s = 0; s < timeline.stages.size(); ++s) {
      rows = {{timeline.stages[s].name + ": where a slot's time went", "us"}};
      for (auto const& part : time_parts(timeline, s)) rows.push_back({part.name, us_number(part.us)});
      text += '\n' + table(rows, {1}, 2);
    }
  if (timeline.tracks.empty()) return text;
  rows = {{"row", "first us", "last us", "busy us", "MB"}};
  auto const tracks = totals_of_tracks(timeline);
  for (std::size_t t = 0; t < tracks.size(); ++t)
    rows.push_back({track_name(timeline, timeline.tracks[t]),
                    us_number(static_cast<double>(tracks[t].first) * 1e-6),
                    us_number(static_cast<double>(tracks[t].last) * 1e-6),
                    us_number(static_cast<double>(tracks[t].busy) * 1e-6),
                    fmt::format("{:.1f}", static_cast<double>(tracks[t].bytes) * 1e-6)});
  return text + '\n' + table(rows, {1, 2, 3, 4}, 2);
}

}  // namespace tessera
