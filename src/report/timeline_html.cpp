// SPDX-License-Identifier: Apache-2.0
// A page of a timeline that no plan stands behind.
#include <fmt/format.h>

#include "report/html_parts.hpp"
#include "report/text.hpp"
#include "report/tracks.hpp"
#include "tessera/report/report.hpp"
#include "tessera/version.hpp"

namespace tessera {
namespace {

using namespace report;

std::string figures(Timeline const& timeline) {
  std::string out = "<ul class=\"figures\">";
  auto const figure = [&](std::string const& value, char const* name) {
    out += fmt::format("<li><b>{}</b><span>{}</span></li>", value, name);
  };
  figure(us_of(timeline.end), timeline.measured ? "measured" : "simulated");
  figure(fmt::format("{:g}", timeline.waves), "blocks on the busiest slot");
  figure(percent(timeline.busy), "of SM time with a block that does not wait");
  if (timeline.dram_bytes > 0) figure(fmt::format("{:.1f} MB", timeline.dram_bytes * 1e-6), "moved by DRAM");
  return out + "</ul>\n";
}

std::string where_time_went(Timeline const& timeline) {
  if (!tells_causes(timeline)) return "";
  std::string out;
  for (std::size_t s = 0; s < timeline.stages.size(); ++s) {
    std::vector<std::vector<std::string>> rows;
    for (auto const& part : time_parts(timeline, s))
      rows.push_back({html(part.name), us_number(part.us),
                      percent(timeline.end > 0 ? part.us * 1e6 / static_cast<double>(timeline.end) : 0)});
    out += fmt::format("<h3>{}: where a slot's time went</h3>\n", html(timeline.stages[s].name)) +
           html_table({{"mean of all slots"}, {"us", Column::number}, {"share", Column::number}}, rows);
    rows.clear();
    auto const gaps = boundaries(timeline, s);
    for (std::size_t n = 0; n < gaps.size(); ++n)
      rows.push_back({fmt::format("{} and {}", n + 1, n + 2), us_number(gaps[n] * 1e-6)});
    if (!rows.empty())
      out += fmt::format("<h3>{}: from one main loop's end to the next one's begin</h3>\n",
                         html(timeline.stages[s].name)) +
             html_table({{"blocks of a slot"}, {"us, mean of all slots", Column::number}}, rows);
  }
  return out;
}

std::string tracks(Timeline const& timeline) {
  if (timeline.tracks.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  auto const totals = totals_of_tracks(timeline);
  for (std::size_t t = 0; t < totals.size(); ++t)
    rows.push_back({html(track_name(timeline, timeline.tracks[t])), us_of(totals[t].first),
                    us_of(totals[t].last), us_of(totals[t].busy),
                    fmt::format("{:.1f}", static_cast<double>(totals[t].bytes) * 1e-6)});
  return "<h3>Beside the SMs</h3>\n" + html_table({{"row"},
                                                   {"first", Column::number},
                                                   {"last", Column::number},
                                                   {"busy", Column::number},
                                                   {"MB", Column::number}},
                                                  rows);
}

}  // namespace

std::string html_fragment(Timeline const& timeline) {
  return fragment_head(timeline.pipeline + ", " + timeline.mechanism) + figures(timeline) + legend(timeline) +
         drawing(timeline.mechanism, timeline, timeline.end) +
         "<details><summary>Where time went</summary>\n" + where_time_went(timeline) + tracks(timeline) +
         "</details>\n" + k_fragment_end;
}

std::string timeline_html(Timeline const& timeline, std::vector<std::string> const& notes) {
  return page_head(timeline.pipeline + ", " + timeline.mechanism) +
         fmt::format("<p class=\"soft\">machine {}</p>\n", html(timeline.machine)) + note_lines(notes) +
         "<section>" + figures(timeline) + "<h3>Timeline</h3>\n" + legend(timeline) +
         drawing(timeline.mechanism, timeline, timeline.end) + where_time_went(timeline) + tracks(timeline) +
         fmt::format(
             "</section>\n<footer>tessera {}. A block is drawn from the moment it holds its place on an SM; "
             "what it waits before it begins to compute is hatched. Simulated times follow the machine "
             "profile, not a run.</footer>\n</main></body></html>\n",
             k_version);
}

}  // namespace tessera
