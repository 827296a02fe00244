// SPDX-License-Identifier: Apache-2.0
#include "overlap/memory_system.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::overlap {

MemorySystem::MemorySystem(OverlapHardware const& hardware, OverlapOptions const& options, EventQueue& queue,
                           std::vector<int> components)
    : hardware_(hardware),
      queue_(queue),
      components_(std::move(components)),
      wake_(components_.size(), simulation::k_never),
      map_(hardware),
      series_bin_(options.series_ps),
      atom_weight_(static_cast<float>(k_atom_bytes) * static_cast<float>(hardware.channels) /
                   static_cast<float>(components_.size())),
      period_(1000 / hardware.dram_clock_ghz),
      request_(static_cast<Picoseconds>(hardware.memory_request_ns * 1000)),
      return_(static_cast<Picoseconds>(hardware.memory_return_ns * 1000)),
      idle_access_(static_cast<Picoseconds>((hardware.rcd + hardware.cl) * period_)) {
  channels_.reserve(components_.size());
  for (std::size_t c = 0; c < components_.size(); ++c)
    channels_.emplace_back(hardware, options.arbitration, options.fixed_threshold);
}

std::int32_t MemorySystem::open(BundleKind kind, Traffic traffic, std::int64_t owner, std::int64_t region) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::int32_t>(bundles_.size()));
    bundles_.emplace_back();
  }
  auto const bundle = free_.back();
  free_.pop_back();
  bundles_[static_cast<std::size_t>(bundle)] = {kind, traffic, owner, region};
  return bundle;
}

void MemorySystem::push(int channel, std::int32_t bundle, Stream stream, AccessKind kind, Picoseconds now,
                        std::uint64_t local, std::int64_t bytes) {
  auto const c = static_cast<std::size_t>(channel);
  auto const place = map_.place(local);
  auto const first = local / k_atom_bytes;
  auto const last = (local + static_cast<std::uint64_t>(bytes) - 1) / k_atom_bytes;
  auto const atoms = static_cast<std::int16_t>(last - first + 1);
  channels_[c].push(stream, {cycle_at(now + request_), place.row, place.bank, kind, atoms, atoms, bundle});
  auto& b = at(bundle);
  ++b.unqueued;
  b.unserved += atoms;
  b.atoms += atoms;
  if (wake_[c] > now + request_) {
    wake_[c] = now + request_;
    queue_.wake(components_[c], wake_[c]);
  }
}

void MemorySystem::add_pieces(std::int32_t bundle, Stream stream, AccessKind kind, Picoseconds now,
                              Pieces const& pieces) {
  auto const interleave = std::uint64_t{1} << map_.shift();
  auto const simulated = static_cast<std::uint32_t>(channels());
  auto first = static_cast<std::uint64_t>(pieces.first);
  for (std::int64_t i = 0; i < pieces.count; ++i, first += static_cast<std::uint64_t>(pieces.stride)) {
    auto number = static_cast<std::uint32_t>(first >> map_.shift());
    auto within = first & (interleave - 1);
    for (auto left = static_cast<std::uint64_t>(pieces.length); left > 0; ++number, within = 0) {
      auto const bytes = std::min(left, interleave - within);
      auto const line = map_.line(number);
      if (line.channel < simulated)
        push(static_cast<int>(line.channel), bundle, stream, kind, now, line.local + within,
             static_cast<std::int64_t>(bytes));
      left -= bytes;
    }
  }
}

void MemorySystem::add_unit(std::int32_t bundle, Stream stream, AccessKind kind, Picoseconds now,
                            std::uint64_t base, std::int64_t unit, double bytes) {
  auto const line = static_cast<std::uint64_t>(hardware_.channel_interleave);
  // Whole requests: a part of one costs as much as all of it.
  auto const share =
      static_cast<std::uint64_t>(std::ceil(bytes / hardware_.channels / k_atom_bytes)) * k_atom_bytes;
  auto const begin = base + static_cast<std::uint64_t>(unit) * share;
  for (int c = 0; c < channels(); ++c)
    for (auto at = begin; at < begin + share;) {
      auto const stop = std::min(begin + share, (at / line + 1) * line);
      push(c, bundle, stream, kind, now, at, static_cast<std::int64_t>(stop - at));
      at = stop;
    }
}

void MemorySystem::advance(int channel, Picoseconds now, std::vector<MemoryEvent>& events) {
  auto const c = static_cast<std::size_t>(channel);
  auto& dram = channels_[c];
  scratch_.clear();
  dram.advance(cycle_at(now + request_), scratch_);
  for (auto const& event : scratch_) {
    auto const time = static_cast<Picoseconds>(static_cast<double>(event.cycle) * period_);
    auto& bundle = at(event.bundle);
    bundle.last = std::max(bundle.last, time);
    if (event.kind == ChannelEvent::Kind::queued) {
      if (--bundle.unqueued == 0) events.push_back({MemoryEvent::Kind::queued, event.bundle, bundle.last});
      continue;
    }
    last_served_ = std::max(last_served_, time);
    if (series_bin_ > 0) {
      auto const bin = static_cast<std::size_t>(time / series_bin_);
      if (bin >= series_.size()) series_.resize(bin + 1);
      series_[bin][static_cast<std::size_t>(bundle.traffic)] +=
          atom_weight_ * static_cast<float>(event.atoms);
    }
    bundle.unserved -= event.atoms;
    if (bundle.unserved == 0) events.push_back({MemoryEvent::Kind::served, event.bundle, bundle.last});
  }
  wake_[c] = simulation::k_never;
  if (dram.idle()) return;
  auto const next = static_cast<Picoseconds>(static_cast<double>(dram.next_cycle()) * period_);
  wake_[c] = std::max(now + request_, next);
  queue_.wake(components_[c], wake_[c]);
}

void MemorySystem::drain() {
  for (auto& channel : channels_) channel.arbiter().drain();
}

std::int64_t MemorySystem::commands() const {
  std::int64_t sum = 0;
  for (auto const& channel : channels_) sum += channel.commands();
  return sum;
}

}  // namespace tessera::overlap
