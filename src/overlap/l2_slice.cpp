// SPDX-License-Identifier: Apache-2.0
#include "overlap/l2_slice.hpp"

#include <algorithm>

namespace tessera::overlap {
namespace {

constexpr auto to_memory = L2Event::Kind::to_memory;
constexpr auto served = L2Event::Kind::served;

}  // namespace

L2Slice::L2Slice(OverlapHardware const& hardware, int sets, int ways, double clock_ghz)
    : sets_(sets),
      ways_(ways),
      ns_per_sector_(1 / clock_ghz),
      room_(hardware.l2_to_dram_entries),
      most_misses_(hardware.l2_misses),
      most_merges_(hardware.l2_merges),
      tags_(static_cast<std::size_t>(sets) * static_cast<std::size_t>(ways), ~std::uint32_t{0}),
      lines_(tags_.size()) {}

void L2Slice::run(double until, std::vector<L2Event>& events) {
  while (first_ < queue_.size()) {
    auto const ns = next();
    if (ns >= until) break;
    if (!serve(queue_[first_], ns, events)) {
      free_ = until;  // tried again in the next cycle
      break;
    }
    free_ = ns + count_sectors(queue_[first_].sectors) * ns_per_sector_;
    ++first_;
  }
  if (first_ == queue_.size() || first_ >= 4096) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
}

bool L2Slice::serve(L2Request const& request, double ns, std::vector<L2Event>& events) {
  // Public Volta model: nothing is looked up, not even a hit, while the queue to memory is full.
  if (!has_room(1)) return false;
  if (request.kind == L2Request::Kind::load) return load(request, ns, events);
  if (request.kind == L2Request::Kind::store) return store(request, ns, events);
  auto const sectors = count_sectors(request.sectors);
  if (!has_room(sectors)) return false;
  queued_ += sectors;
  events.push_back({to_memory, request.access, request.sectors, request.bundle, request.line, ns});
  return true;
}

bool L2Slice::load(L2Request const& request, double ns, std::vector<L2Event>& events) {
  auto* line = find(request.line);
  auto const there = static_cast<std::uint8_t>(line != nullptr ? line->valid : 0);
  auto const coming = static_cast<std::uint8_t>(line != nullptr ? line->pending & ~line->valid : 0);
  auto const merging = static_cast<std::uint8_t>(request.sectors & coming);
  auto const missing = static_cast<std::uint8_t>(request.sectors & ~there & ~coming);
  if (merging != 0 && !takes_waiter(*line, merging)) return false;
  if (missing != 0) {
    auto const sectors = count_sectors(missing);
    if (most_misses_ > 0 && misses_ > 0 && misses_ + sectors > most_misses_) return false;
    auto* room = line != nullptr ? line : victim(request.line);
    if (room == nullptr) return false;
    auto const written = line != nullptr ? 0 : count_sectors(room->dirty);
    if (!has_room(sectors + written)) return false;
    if (line == nullptr) {
      replace(*room, request.line, ns, events);
      line = room;
    }
    line->pending |= missing;
    misses_ += sectors;
    queued_ += sectors;
    events.push_back({to_memory, AccessKind::read, missing, -1, request.line, ns});
  }
  line->used = ++uses_;
  auto const now = static_cast<std::uint8_t>(request.sectors & there);
  if (now != 0) events.push_back({served, AccessKind::read, now, request.bundle, request.line, ns});
  if (auto const later = static_cast<std::uint8_t>(merging | missing); later != 0)
    wait(*line, request.bundle, later);
  return true;
}

bool L2Slice::store(L2Request const& request, double ns, std::vector<L2Event>& events) {
  auto* line = find(request.line);
  if (line == nullptr) {
    line = victim(request.line);
    if (line == nullptr || !has_room(count_sectors(line->dirty))) return false;
    replace(*line, request.line, ns, events);
  }
  line->valid |= request.sectors;
  line->dirty |= request.sectors;
  line->used = ++uses_;
  events.push_back({served, AccessKind::write, request.sectors, request.bundle, request.line, ns});
  return true;
}

void L2Slice::fill(double ns, std::uint64_t number, std::uint8_t sectors, std::vector<L2Event>& events) {
  auto& line = *find(number);
  line.pending &= static_cast<std::uint8_t>(~sectors);
  line.valid |= sectors;
  misses_ -= count_sectors(sectors);
  std::int32_t* link = &line.waiter;
  while (*link >= 0) {
    auto const index = *link;
    auto& waiter = waiters_[static_cast<std::size_t>(index)];
    auto const come = static_cast<std::uint8_t>(waiter.sectors & sectors);
    if (come != 0) events.push_back({served, AccessKind::read, come, waiter.bundle, number, ns});
    waiter.sectors &= static_cast<std::uint8_t>(~sectors);
    if (waiter.sectors != 0) {
      link = &waiter.next;
      continue;
    }
    *link = waiter.next;
    free_waiters_.push_back(index);
  }
}

std::size_t L2Slice::set_of(std::uint64_t line) const {
  // A hash of the line's number, as GPUs do against strides that would always meet the same set.
  auto const mixed = static_cast<std::uint32_t>((line * 0x9E3779B97F4A7C15ULL) >> 40);
  return static_cast<std::size_t>(mixed % static_cast<std::uint32_t>(sets_)) *
         static_cast<std::size_t>(ways_);
}

L2Slice::Line* L2Slice::find(std::uint64_t number) {
  auto const first = set_of(number);
  auto const* const tags = tags_.data() + first;
  auto const tag = static_cast<std::uint32_t>(number);
  // All ways at once, as the hardware does: without a branch for each the compiler compares several together.
  std::uint32_t found = 0;
  for (std::uint32_t way = 0; way < static_cast<std::uint32_t>(ways_); ++way)
    found |= tags[way] == tag ? way + 1 : 0;
  return found == 0 ? nullptr : &lines_[first + found - 1];
}

L2Slice::Line* L2Slice::victim(std::uint64_t number) {
  auto const first = lines_.begin() + static_cast<std::ptrdiff_t>(set_of(number));
  Line* oldest = nullptr;
  for (auto line = first; line != first + ways_; ++line)
    if (line->pending == 0 && (oldest == nullptr || line->used < oldest->used)) oldest = &*line;
  return oldest;
}

void L2Slice::replace(Line& line, std::uint64_t number, double ns, std::vector<L2Event>& events) {
  auto& tag = tags_[static_cast<std::size_t>(&line - lines_.data())];
  if (line.dirty != 0) {
    queued_ += count_sectors(line.dirty);
    events.push_back({to_memory, AccessKind::write, line.dirty, -1, tag, ns});
  }
  line.valid = line.dirty = 0;
  tag = static_cast<std::uint32_t>(number);
}

void L2Slice::wait(Line& line, std::int32_t bundle, std::uint8_t sectors) {
  if (free_waiters_.empty()) {
    free_waiters_.push_back(static_cast<std::int32_t>(waiters_.size()));
    waiters_.emplace_back();
  }
  auto const index = free_waiters_.back();
  free_waiters_.pop_back();
  waiters_[static_cast<std::size_t>(index)] = {bundle, line.waiter, sectors};
  line.waiter = index;
}

bool L2Slice::takes_waiter(Line const& line, std::uint8_t sectors) const {
  if (most_merges_ == 0) return true;
  int waiting[k_sectors] = {};
  for (auto w = line.waiter; w >= 0; w = waiters_[static_cast<std::size_t>(w)].next)
    for (int s = 0; s < k_sectors; ++s) waiting[s] += waiters_[static_cast<std::size_t>(w)].sectors >> s & 1;
  for (int s = 0; s < k_sectors; ++s)
    if ((sectors >> s & 1) != 0 && waiting[s] >= most_merges_) return false;
  return true;
}

}  // namespace tessera::overlap
