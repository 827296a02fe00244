// SPDX-License-Identifier: Apache-2.0
#include "tessera/run/measured.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

constexpr std::int64_t k_ps_per_ns = 1000;

std::int64_t since(unsigned long long origin, unsigned long long at) {
  return at < origin ? 0 : static_cast<std::int64_t>(at - origin) * k_ps_per_ns;
}

TileRecord record_of(BlockStamps const& stamps, unsigned long long origin) {
  TileRecord r;
  r.sm = stamps.sm;
  r.started = since(origin, stamps.started);
  r.ready = stamps.ready == 0 ? r.started : std::max(r.started, since(origin, stamps.ready));
  r.stored = std::max(r.ready, since(origin, stamps.stored));
  r.loaded = stamps.loaded == 0 ? r.stored : std::clamp(since(origin, stamps.loaded), r.ready, r.stored);
  r.posted = std::max(r.stored, since(origin, stamps.posted));
  r.waiting = std::min(static_cast<std::int64_t>(stamps.waiting) * k_ps_per_ns, r.loaded - r.started);
  return r;
}

/// Gives every record the lowest slot that is free on its SM; returns the number of slots, and the longest
/// run of blocks on one slot.
std::pair<int, int> give_slots(std::vector<TileRecord>& tiles, int sms) {
  struct Slot {
    std::int64_t free_at = 0;
    int blocks = 0;
  };
  std::vector<std::vector<Slot>> slots(static_cast<std::size_t>(sms));
  int most = 1;
  int longest = 0;
  for (auto& tile : tiles) {
    auto& here = slots[static_cast<std::size_t>(tile.sm)];
    auto free =
        std::find_if(here.begin(), here.end(), [&](Slot const& s) { return s.free_at <= tile.started; });
    if (free == here.end()) free = here.insert(here.end(), Slot{});
    tile.slot = static_cast<std::int32_t>(free - here.begin());
    free->free_at = tile.posted;
    longest = std::max(longest, ++free->blocks);
    most = std::max(most, static_cast<int>(here.size()));
  }
  return {most, longest};
}

/// Share of the SMs' time with at least one block that does not wait. A block's wait is taken to end at
/// `ready`, as it does where a block waits once.
double busy_share(std::vector<TileRecord> const& tiles, int sms, std::int64_t end) {
  struct Edge {
    std::int32_t sm;
    std::int64_t at;
    int change;
  };
  std::vector<Edge> edges;
  auto const add = [&](TileRecord const& t, std::int64_t from, std::int64_t to) {
    if (from >= to) return;
    edges.push_back({t.sm, from, 1});
    edges.push_back({t.sm, to, -1});
  };
  for (auto const& tile : tiles) {
    add(tile, tile.started, std::max(tile.started, tile.ready - tile.waiting));
    add(tile, tile.ready, tile.posted);
  }
  std::sort(edges.begin(), edges.end(),
            [](Edge const& a, Edge const& b) { return a.sm != b.sm ? a.sm < b.sm : a.at < b.at; });
  double busy = 0;
  int active = 0;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    active += edges[i].change;
    if (active > 0 && i + 1 < edges.size()) busy += static_cast<double>(edges[i + 1].at - edges[i].at);
  }
  return end > 0 ? std::min(1.0, busy / (static_cast<double>(end) * sms)) : 0;
}

Timeline empty_timeline(Plan const& plan, int sms) {
  Timeline timeline;
  timeline.pipeline = plan.pipeline.name;
  timeline.machine = plan.machine;
  timeline.mechanism = mechanism_text(plan);
  timeline.measured = true;
  timeline.sms = sms;
  return timeline;
}

/// Without times.
StageSpan span_of(Plan const& plan, std::size_t index) {
  auto const& stage = plan.pipeline.stages[index];
  StageSpan span{stage.name, -1, 0, stage.tiles(), stage.splits, {}, plan.stages[index].variant};
  for (auto const& dim : stage.grid) span.extent.push_back(dim.extent);
  return span;
}

}  // namespace

Expected<Timeline> measured_timeline(Plan const& plan, std::span<BlockStamps const> stamps, int sms) {
  auto timeline = empty_timeline(plan, sms);
  unsigned long long origin = 0;
  for (auto const& one : stamps)
    if (one.started != 0 && (origin == 0 || one.started < origin)) origin = one.started;

  std::size_t next = 0;
  for (std::size_t s = 0; s < plan.pipeline.stages.size(); ++s) {
    auto const& stage = plan.pipeline.stages[s];
    auto span = span_of(plan, s);
    for (std::int64_t block = 0; block < stage.blocks(); ++block, ++next) {
      auto const tile = block % stage.tiles();
      if (next >= stamps.size() || stamps[next].started == 0 || stamps[next].posted == 0 ||
          stamps[next].sm < 0 || stamps[next].sm >= sms)
        return refuse(
            {"E0522",
             Severity::error,
             stage.where,
             fmt::format("{} of {} has no complete time stamps", tile_name(stage, tile), plan.pipeline.name),
             {},
             "compile every kernel with a recording view and ask after a launch is complete, or time "
             "launches "
             "(ChainOptions::time_launches)"});
      auto record = record_of(stamps[next], origin);
      record.stage = static_cast<std::int32_t>(s);
      record.tile = tile;
      record.split = static_cast<std::int32_t>(block / stage.tiles());
      span.first_start = span.first_start < 0 ? record.started : std::min(span.first_start, record.started);
      span.last_end = std::max(span.last_end, record.posted);
      timeline.end = std::max(timeline.end, record.posted);
      timeline.tiles.push_back(record);
    }
    timeline.stages.push_back(std::move(span));
  }
  std::sort(timeline.tiles.begin(), timeline.tiles.end(), [](TileRecord const& a, TileRecord const& b) {
    if (a.started != b.started) return a.started < b.started;
    if (a.stage != b.stage) return a.stage < b.stage;
    return a.tile != b.tile ? a.tile < b.tile : a.split < b.split;
  });
  auto const [slots, longest] = give_slots(timeline.tiles, sms);
  timeline.slots_per_sm = slots;
  timeline.waves = longest;
  timeline.busy = busy_share(timeline.tiles, sms, timeline.end);
  return timeline;
}

Timeline launch_timeline(Plan const& plan, std::span<LaunchSpan const> spans, int sms) {
  auto timeline = empty_timeline(plan, sms);
  timeline.by_launch = true;
  for (std::size_t s = 0; s < plan.pipeline.stages.size(); ++s) {
    auto span = span_of(plan, s);
    auto const& ran = spans[static_cast<std::size_t>(launch_of(plan, static_cast<int>(s)))];
    auto const ps = [](double us) { return std::max<std::int64_t>(0, std::llround(us * 1e6)); };
    span.first_start = ps(ran.begin_us);
    span.last_end = std::max(span.first_start, ps(ran.end_us));
    timeline.end = std::max(timeline.end, span.last_end);
    timeline.stages.push_back(std::move(span));
  }
  return timeline;
}

}  // namespace tessera
