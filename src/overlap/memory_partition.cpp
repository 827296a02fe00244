// SPDX-License-Identifier: Apache-2.0
#include "overlap/memory_partition.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::overlap {
namespace {

// An access of a slice is known to the channel by a number below that of "nobody" (-1).
std::int32_t mark(std::int32_t transit) { return -2 - transit; }

}  // namespace

MemoryPartition::MemoryPartition(MachineProfile const& machine, Arbitration policy, int fixed_threshold)
    : period_(1 / machine.overlap->dram_clock_ghz),
      l2_to_dram_(machine.overlap->l2_to_dram_ns),
      map_(*machine.overlap),
      channel_(*machine.overlap, policy, fixed_threshold) {
  auto const& hardware = *machine.overlap;
  int const count = std::max(1, hardware.l2_slices / hardware.channels);
  auto const lines = machine.l2_mib * (1 << 20) / hardware.channels / count / k_line_bytes;
  int const ways = std::clamp(static_cast<int>(std::min(lines, 1e6)), 1, hardware.l2_ways);
  int const sets = std::max(1, static_cast<int>(std::min(lines / ways, 1e6)));
  auto const clock = machine.l2_gbps / hardware.channels / count / k_atom_bytes;
  for (int s = 0; s < count; ++s) slices_.emplace_back(hardware, sets, ways, clock);
}

void MemoryPartition::advance(std::int64_t until, std::vector<PartitionEvent>& events) {
  while (cycle_ < until) {
    fill(cycle_, events);
    auto limit = until;
    auto const end = static_cast<double>(cycle_ + 1) * period_;
    for (std::size_t s = 0; s < slices_.size(); ++s) {
      if (!slices_[s].busy()) continue;
      slices_[s].run(end, l2_events_);
      take(s, events);
      if (slices_[s].busy()) limit = std::min(limit, cycle_of(slices_[s].next()));
    }
    if (!fills_.empty()) limit = std::min(limit, fills_.front().cycle);
    limit = std::max(limit, cycle_ + 1);
    channel_events_.clear();
    channel_.advance(limit, channel_events_);
    for (auto const& event : channel_events_) tell(event, events);
    cycle_ = limit;
  }
  // Fills of the cycles that the channel ran by itself: told now, before what may follow from them.
  fill(until - 1, events);
}

/// Gives slices what has come from memory up to a cycle.
void MemoryPartition::fill(std::int64_t cycle, std::vector<PartitionEvent>& events) {
  for (; !fills_.empty() && fills_.front().cycle <= cycle; fills_.pop_front()) {
    auto const index = fills_.front().transit;
    auto const transit = transits_[static_cast<std::size_t>(index)];
    auto const slice = static_cast<std::size_t>(transit.slice);
    slices_[slice].fill(static_cast<double>(fills_.front().cycle) * period_, transit.line, transit.sectors,
                        l2_events_);
    take(slice, events);
    free_transits_.push_back(index);
  }
}

/// Hands on what a slice has said.
void MemoryPartition::take(std::size_t slice, std::vector<PartitionEvent>& events) {
  for (auto const& event : l2_events_) {
    if (event.kind == L2Event::Kind::to_memory) {
      send(slice, event);
      continue;
    }
    bool const load = event.access == AccessKind::read;
    events.push_back({load ? PartitionEvent::Kind::loaded : PartitionEvent::Kind::stored,
                      static_cast<std::int16_t>(count_sectors(event.sectors)), event.bundle, event.ns});
  }
  l2_events_.clear();
}

void MemoryPartition::send(std::size_t slice, L2Event const& event) {
  if (free_transits_.empty()) {
    free_transits_.push_back(static_cast<std::int32_t>(transits_.size()));
    transits_.emplace_back();
  }
  auto const index = free_transits_.back();
  free_transits_.pop_back();
  transits_[static_cast<std::size_t>(index)] = {
      event.line, static_cast<std::int32_t>(slice), event.bundle, event.sectors, event.access, 0};
  auto const place = map_.place(event.line * k_line_bytes);
  auto const atoms = static_cast<std::int16_t>(count_sectors(event.sectors));
  auto const arrival = static_cast<std::int64_t>(std::ceil((event.ns + l2_to_dram_) / period_));
  transits_[static_cast<std::size_t>(index)].unserved = static_cast<std::int8_t>(atoms);
  channel_.push(Stream::compute, {arrival, place.row, place.bank, event.access, atoms, atoms, mark(index)});
}

void MemoryPartition::tell(ChannelEvent const& event, std::vector<PartitionEvent>& events) {
  using Kind = PartitionEvent::Kind;
  auto const ns = static_cast<double>(event.cycle) * period_;
  bool const queued = event.kind == ChannelEvent::Kind::queued;
  if (event.bundle >= -1) {
    events.push_back({queued ? Kind::queued : Kind::served, event.atoms, event.bundle, ns});
    return;
  }
  auto const index = mark(event.bundle);
  auto& transit = transits_[static_cast<std::size_t>(index)];
  if (queued) {
    slices_[static_cast<std::size_t>(transit.slice)].left_queue(event.atoms);
    if (transit.bundle >= 0) events.push_back({Kind::queued, event.atoms, transit.bundle, ns});
    return;
  }
  transit.unserved = static_cast<std::int8_t>(transit.unserved - event.atoms);
  if (transit.kind == AccessKind::read) {
    events.push_back({Kind::fetched, event.atoms, -1, ns});
    if (transit.unserved == 0) fills_.push_back({event.cycle, index});
    return;
  }
  events.push_back({transit.bundle >= 0 ? Kind::served : Kind::evicted, event.atoms, transit.bundle, ns});
  if (transit.unserved == 0) free_transits_.push_back(index);
}

bool MemoryPartition::idle() const {
  return channel_.idle() && fills_.empty() &&
         std::none_of(slices_.begin(), slices_.end(), [](L2Slice const& s) { return s.busy(); });
}

std::int64_t MemoryPartition::next_cycle() const {
  auto next = channel_.idle() ? INT64_MAX : channel_.next_cycle();
  if (!fills_.empty()) next = std::min(next, fills_.front().cycle);
  for (auto const& slice : slices_)
    if (slice.busy()) next = std::min(next, cycle_of(slice.next()));
  return std::max(next, cycle_);
}

}  // namespace tessera::overlap
