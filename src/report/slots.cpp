// SPDX-License-Identifier: Apache-2.0
#include "report/slots.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace tessera::report {

std::vector<Slot> slots_of(Timeline const& timeline) {
  std::map<std::tuple<int, int, int>, Slot> by_place;
  for (auto const& tile : timeline.tiles) {
    auto& slot = by_place[{tile.gpu, tile.sm, tile.slot}];
    slot.gpu = tile.gpu;
    slot.sm = tile.sm;
    slot.slot = tile.slot;
    slot.tiles.push_back(&tile);
  }
  std::vector<Slot> slots;
  for (auto& [place, slot] : by_place) {
    std::stable_sort(slot.tiles.begin(), slot.tiles.end(),
                     [](auto const* a, auto const* b) { return a->started < b->started; });
    slots.push_back(std::move(slot));
  }
  return slots;
}

std::vector<int> most_at_once(Timeline const& timeline) {
  // +1 and -1 of (stage, GPU, SM) in the order of time; of equal times ends first.
  std::vector<std::tuple<int, int, int, std::int64_t, int>> events;
  for (auto const& tile : timeline.tiles) {
    if (tile.posted <= tile.started || tile.stage < 0) continue;
    if (static_cast<std::size_t>(tile.stage) >= timeline.stages.size()) continue;
    events.emplace_back(tile.stage, tile.gpu, tile.sm, tile.started, 1);
    events.emplace_back(tile.stage, tile.gpu, tile.sm, tile.posted, -1);
  }
  std::sort(events.begin(), events.end());
  std::vector<int> most(timeline.stages.size(), 1);
  int at_once = 0;  // all of a place have ended where the next one begins
  for (auto const& [stage, gpu, sm, time, change] : events) {
    at_once += change;
    auto& known = most[static_cast<std::size_t>(stage)];
    known = std::max(known, at_once);
  }
  return most;
}

std::string slot_name(Timeline const& timeline, Slot const& slot) {
  std::string name = "SM " + std::to_string(slot.sm);
  if (timeline.slots_per_sm > 1) name += "." + std::to_string(slot.slot);
  return timeline.gpus > 1 ? "GPU " + std::to_string(slot.gpu) + " " + name : name;
}

std::string coordinates(StageSpan const& stage, TileRecord const& tile) {
  std::string text;
  auto left = tile.tile;
  for (std::size_t d = 0; d < stage.extent.size(); ++d) {
    auto const extent = std::max<std::int64_t>(stage.extent[d], 1);
    bool const last = d + 1 == stage.extent.size();
    text += (d > 0 ? "," : "") + std::to_string(last ? left : left % extent);
    left /= extent;
  }
  if (stage.extent.empty()) text = std::to_string(tile.tile);
  if (stage.splits > 1) text += "/" + std::to_string(tile.split);
  return text;
}

std::string stage_name(Timeline const& timeline, TileRecord const& tile) {
  return timeline.stages[static_cast<std::size_t>(tile.stage)].name;
}

std::int64_t wait_begin(TileRecord const& tile) {
  if (tile.causes != WaitCauses{}) return tile.ready - tile.causes.before_ready;
  return tile.ready - std::min(tile.waiting, tile.ready - tile.started);
}

std::int64_t store_wait_begin(TileRecord const& tile) { return tile.stored - tile.causes.stores; }

}  // namespace tessera::report
