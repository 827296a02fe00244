// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <iterator>

#include "report/slots.hpp"
#include "report/tracks.hpp"
#include "tessera/report/report.hpp"

namespace tessera {
namespace {

std::string field(std::string const& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (char const c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

/// Exact: a picosecond is the third decimal of a nanosecond.
std::string ns(std::int64_t ps) { return fmt::format("{}.{:03}", ps / 1000, ps % 1000); }

}  // namespace

std::string timeline_csv(Timeline const& timeline) {
  bool const with_causes = report::tells_causes(timeline);
  std::string text =
      "stage,tile,coordinates,split,gpu,sm,slot,started_ns,ready_ns,loaded_ns,stored_ns,posted_ns,waiting_ns";
  text += with_causes ? ",operands_ns,matrix_unit_ns,stores_ns\n" : "\n";
  for (auto const& tile : timeline.tiles) {
    auto span = timeline.stages[static_cast<std::size_t>(tile.stage)];
    span.splits = 1;  // the split has a column of its own
    fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{},{},{},{},{},{},{},{}", field(span.name),
                   tile.tile, field(report::coordinates(span, tile)), tile.split, tile.gpu, tile.sm,
                   tile.slot, ns(tile.started), ns(tile.ready), ns(tile.loaded), ns(tile.stored),
                   ns(tile.posted), ns(tile.waiting));
    if (with_causes)
      fmt::format_to(std::back_inserter(text), ",{},{},{}", ns(tile.causes.operands),
                     ns(tile.causes.matrix_unit), ns(tile.causes.stores));
    text += '\n';
  }
  for (auto const& span : timeline.spans) {
    auto const& track = timeline.tracks[static_cast<std::size_t>(span.track)];
    auto const from = ns(span.from), to = ns(span.to);
    fmt::format_to(std::back_inserter(text), "{},{},{},0,{},,,{},{},{},{},{},0.000{}\n", field(track.name),
                   span.item, field(report::span_name(timeline, span)), track.gpu, from, from, to, to, to,
                   with_causes ? ",0.000,0.000,0.000" : "");
  }
  return text;
}

}  // namespace tessera
