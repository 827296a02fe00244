// SPDX-License-Identifier: Apache-2.0
#include "report/tracks.hpp"

#include <algorithm>

#include "report/slots.hpp"

namespace tessera::report {

std::string track_name(Timeline const& timeline, Track const& track) {
  return timeline.gpus > 1 ? "GPU " + std::to_string(track.gpu) + " " + track.name : track.name;
}

std::string span_name(Timeline const& timeline, TrackSpan const& span) {
  auto const& item = timeline.tracks[static_cast<std::size_t>(span.track)].item;
  return (item.empty() ? "" : item + " ") + std::to_string(span.item);
}

std::vector<TrackTotals> totals_of_tracks(Timeline const& timeline) {
  std::vector<TrackTotals> all(timeline.tracks.size());
  for (auto const& span : timeline.spans) {
    auto& totals = all[static_cast<std::size_t>(span.track)];
    if (totals.last == 0) totals.first = span.from;
    totals.last = std::max(totals.last, span.to);
    totals.busy += span.to - span.from;
    totals.bytes += span.bytes;
  }
  return all;
}

bool tells_causes(Timeline const& timeline) {
  return std::any_of(timeline.tiles.begin(), timeline.tiles.end(),
                     [](auto const& tile) { return tile.causes != WaitCauses{}; });
}

std::vector<TimePart> time_parts(Timeline const& timeline, std::size_t stage) {
  std::int64_t set_up = 0, computing = 0, operands = 0, matrix_unit = 0, storing = 0, stores = 0;
  for (auto const& tile : timeline.tiles) {
    if (static_cast<std::size_t>(tile.stage) != stage) continue;
    auto const start = wait_begin(tile) - tile.started;
    set_up += start;
    computing += tile.loaded - tile.started - start - tile.waiting;
    operands += tile.causes.operands;
    matrix_unit += tile.causes.matrix_unit;
    stores += tile.causes.stores;
    storing += tile.posted - tile.loaded - tile.causes.stores;
  }
  auto const slots = static_cast<double>(std::int64_t{timeline.gpus} * timeline.sms * timeline.slots_per_sm);
  auto const mean = [&](std::int64_t ps) { return static_cast<double>(ps) * 1e-6 / slots; };
  auto const all = set_up + computing + operands + matrix_unit + storing + stores;
  return {{"set-up", mean(set_up)},
          {"computing", mean(computing)},
          {"waiting for operands", mean(operands)},
          {"waiting for the matrix unit", mean(matrix_unit)},
          {"storing", mean(storing)},
          {"waiting for stores to be taken", mean(stores)},
          {"no block", static_cast<double>(timeline.end) * 1e-6 - mean(all)}};
}

std::vector<double> boundaries(Timeline const& timeline, std::size_t stage) {
  std::vector<double> sums;
  std::vector<std::int64_t> counts;
  for (auto const& slot : slots_of(timeline)) {
    std::size_t n = 0;
    TileRecord const* before = nullptr;
    for (auto const* tile : slot.tiles) {
      if (static_cast<std::size_t>(tile->stage) != stage) continue;
      if (before != nullptr) {
        if (n >= sums.size()) sums.push_back(0), counts.push_back(0);
        sums[n] += static_cast<double>(tile->ready - before->loaded);
        ++counts[n++];
      }
      before = tile;
    }
  }
  for (std::size_t n = 0; n < sums.size(); ++n) sums[n] /= static_cast<double>(counts[n]);
  return sums;
}

}  // namespace tessera::report
