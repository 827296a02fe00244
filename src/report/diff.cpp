// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "report/text.hpp"
#include "tessera/report/report.hpp"

namespace tessera {
namespace {

using namespace report;

struct StageTotals {
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t waiting = 0;
};

StageTotals totals(Timeline const& timeline, std::size_t stage) {
  StageTotals result{timeline.stages[stage].first_start, timeline.stages[stage].last_end, 0};
  for (auto const& tile : timeline.tiles)
    if (static_cast<std::size_t>(tile.stage) == stage) result.waiting += tile.waiting;
  return result;
}

std::string name_of(Timeline const& timeline) {
  return fmt::format("{} on {}, {} ({})", timeline.pipeline, timeline.machine, timeline.mechanism,
                     timeline.measured ? "measured" : "simulated");
}

std::string delta(std::int64_t before, std::int64_t after) {
  return fmt::format("{} ({})", us_of(after), signed_us(static_cast<double>(after - before) * 1e-6));
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
  return text + table(rows, {1, 2, 3}, 2) + variants;
}

std::string summary(Timeline const& timeline) {
  auto text = labelled(timeline.measured ? "measured" : "simulated", name_of(timeline));
  text +=
      labelled("total", timeline.by_launch ? us_of(timeline.end) + ", measured by launch"
                                           : fmt::format("{}, {:g} waves, SMs busy {}", us_of(timeline.end),
                                                         timeline.waves, percent(timeline.busy)));
  if (timeline.dram_bytes > 0)
    text += labelled("DRAM", fmt::format("{:.2f} MB, the limiter for {} of the time",
                                         timeline.dram_bytes * 1e-6, percent(timeline.dram_busy)));
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
  return text + '\n' + table(rows, {1, 2, 3, 4}, 2);
}

}  // namespace tessera
