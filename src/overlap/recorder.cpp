// SPDX-License-Identifier: Apache-2.0
#include "overlap/recorder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tessera::overlap {

Recorder::Recorder(MachineProfile const& machine, int gpu, int sms, std::size_t places)
    : gpu_(gpu),
      sms_(sms),
      ps_per_link_byte_(1000 / machine.overlap->link_gbps),
      places_(places),
      busy_(static_cast<std::size_t>(sms)) {}

void Recorder::works(int place, Picoseconds from, Picoseconds to) {
  auto& sm = busy_[static_cast<std::size_t>(place % sms_)];
  sm.busy += std::max<Picoseconds>(0, to - std::max(from, sm.busy_until));
  sm.busy_until = std::max(sm.busy_until, to);
  at(place).busy_until = to;
}

void Recorder::begins(int place, std::int64_t tile, Picoseconds now, Picoseconds set_up) {
  auto& p = at(place);
  p.block = {};
  p.block.tile = tile;
  p.block.gpu = gpu_;
  p.block.sm = place % sms_;
  p.block.slot = place / sms_;
  p.block.started = p.block.ready = now;
  p.computed = false;
  p.blocked_at = -1;
  ++p.blocks;
  works(place, now, set_up);
}

void Recorder::blocked(int place, Picoseconds now) {
  if (auto& p = at(place); p.blocked_at < 0) p.blocked_at = now;
}

void Recorder::computes(int place, Picoseconds from, Picoseconds to) {
  auto& p = at(place);
  auto const unit = p.blocked_at < 0 ? 0 : from - p.blocked_at;
  p.block.causes.matrix_unit += unit;
  p.block.causes.operands += from - p.busy_until - unit;
  if (!p.computed) {
    p.block.ready = from;
    p.block.causes.before_ready = from - p.busy_until;
  }
  p.computed = true;
  p.blocked_at = -1;
  p.block.loaded = to;
  works(place, from, to);
}

void Recorder::stores(int place, Picoseconds from, Picoseconds to) {
  at(place).block.causes.stores += from - at(place).busy_until;
  works(place, from, to);
}

void Recorder::ends(int place, Picoseconds now) {
  auto& p = at(place);
  auto& block = p.block;
  block.causes.stores += now - p.busy_until;
  block.waiting = block.causes.operands + block.causes.matrix_unit;
  block.stored = block.posted = now;
  blocks_.push_back(block);
}

void Recorder::moved(int place, Picoseconds now) {
  computes(place, at(place).busy_until, now);
  ends(place, now);
}

void Recorder::sends(int peer, std::int64_t chunk, Picoseconds left, double bytes) {
  auto const from = left - static_cast<Picoseconds>(bytes * ps_per_link_byte_);
  auto const size = std::llround(bytes);
  auto& spans = links_[peer];
  if (!spans.empty() && spans.back().item == chunk && spans.back().to >= from) {
    auto& last = spans.back();
    last.to = left;
    ++last.transfers;
    last.bytes += size;
  } else {
    spans.push_back({0, chunk, from, left, 1, size});
  }
}

void Recorder::read_begins(std::int64_t chunk, Picoseconds now, double bytes) {
  auto const [entry, is_new] = copy_of_chunk_.try_emplace(chunk);
  auto& copy = entry->second;
  if (is_new || (copy.under_way == 0 && copies_[copy.span].to < now)) {
    copy.span = copies_.size();
    copies_.push_back({0, chunk, now, now, 0, 0});
  }
  ++copy.under_way;
  ++copies_[copy.span].transfers;
  copies_[copy.span].bytes += std::llround(bytes);
}

void Recorder::read_ends(std::int64_t chunk, Picoseconds now) {
  auto& copy = copy_of_chunk_.at(chunk);
  --copy.under_way;
  auto& span = copies_[copy.span];
  span.to = std::max(span.to, now);
}

Picoseconds Recorder::busy() const {
  return std::accumulate(busy_.begin(), busy_.end(), Picoseconds{0},
                         [](Picoseconds sum, Sm const& sm) { return sum + sm.busy; });
}

std::int64_t Recorder::most_blocks_of_a_place() const {
  std::int64_t most = 0;
  for (auto const& place : places_) most = std::max(most, place.blocks);
  return most;
}

void Recorder::add_tracks(Timeline& timeline) const {
  // Chunks that are read at the same time get rows of their own; each stays in its row.
  struct Lane {
    Picoseconds until = 0;
    std::vector<TrackSpan> spans;
  };
  struct Extent {
    Picoseconds from = 0, to = 0;
    std::size_t lane = 0;
  };
  std::map<std::int64_t, Extent> extents;
  for (auto const& span : copies_) {
    auto const [entry, is_new] = extents.try_emplace(span.item, Extent{span.from, span.to, 0});
    if (!is_new) entry->second.to = std::max(entry->second.to, span.to);
  }
  std::vector<Lane> lanes;
  for (auto const& span : copies_) {
    auto& extent = extents.at(span.item);
    if (span.from == extent.from) {
      auto const free =
          std::find_if(lanes.begin(), lanes.end(), [&](Lane const& lane) { return lane.until <= span.from; });
      extent.lane = static_cast<std::size_t>(free - lanes.begin());
      if (free == lanes.end()) lanes.emplace_back();
      lanes[extent.lane].until = extent.to;
    }
    lanes[extent.lane].spans.push_back(span);
  }
  auto const add = [&](std::string name, std::vector<TrackSpan> const& spans) {
    auto const track = static_cast<std::int32_t>(timeline.tracks.size());
    timeline.tracks.push_back({std::move(name), "chunk", gpu_});
    for (auto span : spans) {
      span.track = track;
      timeline.spans.push_back(span);
    }
  };
  for (std::size_t l = 0; l < lanes.size(); ++l)
    add(l == 0 ? "copy engine" : fmt::format("copy engine ({})", l + 1), lanes[l].spans);
  for (auto const& [peer, spans] : links_) add(fmt::format("link to GPU {}", peer), spans);
}

}  // namespace tessera::overlap
