// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "report/slots.hpp"
#include "report/text.hpp"
#include "report/tracks.hpp"
#include "tessera/report/report.hpp"

namespace tessera {
namespace {

constexpr std::size_t k_most_rows = 48;

char letter(std::int32_t stage) { return static_cast<char>('A' + stage % 26); }
char fill(std::int32_t stage) { return "-=~+"[stage % 4]; }

std::size_t column_of(std::int64_t ps, std::int64_t end, std::size_t columns) {
  if (end <= 0) return 0;
  auto const share = static_cast<double>(ps) / static_cast<double>(end);
  return std::min(columns, static_cast<std::size_t>(share * static_cast<double>(columns) + 0.5));
}

void draw_block(std::string& row, Timeline const& timeline, TileRecord const& tile) {
  auto const columns = row.size() - 1;
  auto const at = [&](std::int64_t ps) { return column_of(ps, timeline.end, columns); };
  auto const from = at(tile.started);
  auto const to = at(tile.posted);
  auto const ready = tile.waiting > 0 ? at(tile.ready) : from;
  for (auto c = from; c < to; ++c) row[c] = c < ready ? '.' : fill(tile.stage);
  row[from] = '|';
  row[to] = '|';
  auto const& span = timeline.stages[static_cast<std::size_t>(tile.stage)];
  auto const full = fmt::format("{} {} ", letter(tile.stage), report::coordinates(span, tile));
  auto const begin = std::max(ready, from + 1);
  auto const room = to > begin ? to - begin : 0;
  if (room >= full.size() - 1)
    row.replace(begin, std::min(full.size(), room), full, 0, std::min(full.size(), room));
  else if (room >= 1)
    row[begin] = letter(tile.stage);
}

/// The last digit of what the track is busy with.
std::string draw_track(Timeline const& timeline, std::int32_t track, std::size_t width) {
  std::string row(width + 1, ' ');
  for (auto const& span : timeline.spans) {
    if (span.track != track) continue;
    auto const from = column_of(span.from, timeline.end, width);
    auto const to = std::max(column_of(span.to, timeline.end, width), std::min(from + 1, width));
    for (auto c = from; c < to; ++c) row[c] = static_cast<char>('0' + span.item % 10);
  }
  while (!row.empty() && row.back() == ' ') row.pop_back();
  return row;
}

}  // namespace

std::string draw(Timeline const& timeline, int columns) {
  auto const width = static_cast<std::size_t>(std::clamp(columns, 20, 400));
  auto const slots = report::slots_of(timeline);
  std::size_t label = 4;
  for (auto const& slot : slots) label = std::max(label, report::slot_name(timeline, slot).size());
  for (auto const& track : timeline.tracks)
    label = std::max(label, report::track_name(timeline, track).size());

  auto const end = report::us_of(timeline.end);
  std::string text = fmt::format("{:{}}  0{:>{}}\n", "", label, end, width);
  for (std::size_t s = 0; s < slots.size() && s < k_most_rows; ++s) {
    std::string row(width + 1, ' ');
    for (auto const* tile : slots[s].tiles) draw_block(row, timeline, *tile);
    while (row.back() == ' ') row.pop_back();
    text += fmt::format("{:<{}}  {}\n", report::slot_name(timeline, slots[s]), label, row);
  }
  if (slots.size() > k_most_rows) text += fmt::format("and {} more rows\n", slots.size() - k_most_rows);
  for (std::size_t t = 0; t < timeline.tracks.size(); ++t)
    text += fmt::format("{:<{}}  {}\n", report::track_name(timeline, timeline.tracks[t]), label,
                        draw_track(timeline, static_cast<std::int32_t>(t), width));
  std::string legend;
  bool waits = false;
  for (auto const& tile : timeline.tiles) waits = waits || tile.waiting > 0;
  for (std::size_t s = 0; s < timeline.stages.size(); ++s)
    legend += fmt::format("{}{} {}", s > 0 ? ", " : "", letter(static_cast<std::int32_t>(s)),
                          timeline.stages[s].name);
  return text + fmt::format("{:{}}  {}{}\n", "", label, legend, waits ? "; ... waits" : "");
}

}  // namespace tessera
