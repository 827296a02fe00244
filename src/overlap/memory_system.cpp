// SPDX-License-Identifier: Apache-2.0
#include "overlap/memory_system.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::overlap {

using simulation::picoseconds;

namespace {

/// The lines that `bytes` from `local` on touch.
void add_lines(std::vector<LineSectors>& lines, std::int32_t channel, std::uint64_t local,
               std::uint64_t bytes) {
  auto const end = local + bytes;
  for (auto number = local / k_line_bytes; number * k_line_bytes < end; ++number) {
    auto const line = number * k_line_bytes;
    auto const from = static_cast<int>((std::max(local, line) - line) / k_atom_bytes);
    auto const to = static_cast<int>((std::min(end, line + k_line_bytes) - line - 1) / k_atom_bytes);
    lines.push_back({number, channel, static_cast<std::uint8_t>((2 << to) - (1 << from))});
  }
}

}  // namespace

MemorySystem::MemorySystem(MachineProfile const& machine, OverlapOptions const& options, EventQueue& queue,
                           std::vector<int> components)
    : hardware_(*machine.overlap),
      queue_(queue),
      components_(std::move(components)),
      wake_(components_.size(), simulation::k_never),
      map_(hardware_),
      series_bin_(options.series_ps),
      atom_weight_(static_cast<float>(k_atom_bytes) * static_cast<float>(hardware_.channels) /
                   static_cast<float>(components_.size())),
      period_(1000 / hardware_.dram_clock_ghz),
      request_(picoseconds(hardware_.memory_request_ns)),
      return_(picoseconds(hardware_.memory_return_ns)),
      hit_return_(std::max<Picoseconds>(0, picoseconds(hardware_.l2_hit_ns) - request_)) {
  partitions_.reserve(components_.size());
  for (std::size_t c = 0; c < components_.size(); ++c)
    partitions_.emplace_back(machine, options.arbitration, options.fixed_threshold);
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

void MemorySystem::wake(int channel, Picoseconds at) {
  auto const c = static_cast<std::size_t>(channel);
  if (wake_[c] <= at) return;
  wake_[c] = at;
  queue_.wake(components_[c], at);
}

void MemorySystem::push(int channel, std::int32_t bundle, Stream stream, AccessKind kind, Picoseconds now,
                        std::uint64_t local, std::int64_t bytes) {
  auto const place = map_.place(local);
  auto const first = local / k_atom_bytes;
  auto const last = (local + static_cast<std::uint64_t>(bytes) - 1) / k_atom_bytes;
  auto const atoms = static_cast<std::int16_t>(last - first + 1);
  partitions_[static_cast<std::size_t>(channel)].push(
      stream, {cycle_at(now + request_), place.row, place.bank, kind, atoms, atoms, bundle});
  auto& b = at(bundle);
  b.unqueued += atoms;
  b.unserved += atoms;
  b.atoms += atoms;
  wake(channel, now + request_);
}

void MemorySystem::push(int channel, L2Request const& request, Picoseconds now) {
  auto& b = at(request.bundle);
  auto const sectors = count_sectors(request.sectors);
  if (request.kind == L2Request::Kind::through) b.unqueued += sectors;
  b.unserved += sectors;
  b.atoms += sectors;
  partitions_[static_cast<std::size_t>(channel)].push(request);
  wake(channel, now + request_);
}

std::vector<LineSectors> MemorySystem::lines_of(Pieces const& pieces) const {
  auto const interleave = std::uint64_t{1} << map_.shift();
  auto const simulated = static_cast<std::uint32_t>(channels());
  std::vector<LineSectors> lines;
  auto first = static_cast<std::uint64_t>(pieces.first);
  for (std::int64_t i = 0; i < pieces.count; ++i, first += static_cast<std::uint64_t>(pieces.stride)) {
    auto number = static_cast<std::uint32_t>(first >> map_.shift());
    auto within = first & (interleave - 1);
    for (auto left = static_cast<std::uint64_t>(pieces.length); left > 0; ++number, within = 0) {
      auto const bytes = std::min(left, interleave - within);
      auto const place = map_.line(number);
      if (place.channel < simulated)
        add_lines(lines, static_cast<std::int32_t>(place.channel), place.local + within, bytes);
      left -= bytes;
    }
  }
  return lines;
}

std::vector<LineSectors> MemorySystem::lines_of(std::uint64_t base, std::int64_t unit, double bytes) const {
  auto const share =
      static_cast<std::uint64_t>(std::ceil(bytes / hardware_.channels / k_atom_bytes)) * k_atom_bytes;
  std::vector<LineSectors> lines;
  for (int c = 0; c < channels(); ++c)
    add_lines(lines, c, base + static_cast<std::uint64_t>(unit) * share, share);
  return lines;
}

void MemorySystem::load(std::int32_t bundle, Picoseconds now, std::vector<LineSectors> const& lines) {
  L2Request request;
  request.bundle = bundle;
  request.arrival = static_cast<double>(now + request_) * 1e-3;
  for (auto const& line : lines) {
    request.line = line.line;
    request.sectors = line.sectors;
    push(line.channel, request, now);
  }
}

void MemorySystem::store(std::int32_t bundle, Picoseconds now, std::uint64_t base, std::int64_t unit,
                         double bytes, bool through, AccessKind kind) {
  L2Request request;
  request.bundle = bundle;
  request.arrival = static_cast<double>(now + request_) * 1e-3;
  request.kind = through ? L2Request::Kind::through : L2Request::Kind::store;
  request.access = kind;
  for (auto const& line : lines_of(base, unit, bytes)) {
    request.line = line.line;
    request.sectors = line.sectors;
    push(line.channel, request, now);
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
  auto& partition = partitions_[c];
  scratch_.clear();
  partition.advance(cycle_at(now + request_), scratch_);
  for (auto const& event : scratch_) handle(event, events);
  wake_[c] = simulation::k_never;
  if (partition.idle()) return;
  auto const next = static_cast<Picoseconds>(static_cast<double>(partition.next_cycle()) * period_);
  wake(channel, std::max(now + request_, next));
}

/// Memory has moved sectors.
void MemorySystem::moved(Traffic traffic, PartitionEvent const& event) {
  auto const time = picoseconds(event.ns);
  last_served_ = std::max(last_served_, time);
  if (series_bin_ <= 0) return;
  auto const bin = static_cast<std::size_t>(time / series_bin_);
  if (bin >= series_.size()) series_.resize(bin + 1);
  series_[bin][static_cast<std::size_t>(traffic)] += atom_weight_ * static_cast<float>(event.sectors);
}

void MemorySystem::handle(PartitionEvent const& event, std::vector<MemoryEvent>& events) {
  using Kind = PartitionEvent::Kind;
  if (event.kind == Kind::fetched || event.kind == Kind::evicted) {
    auto const traffic = event.kind == Kind::fetched ? Traffic::gemm_read : Traffic::gemm_write;
    if (event.kind == Kind::fetched) count(traffic, static_cast<double>(atom_weight_) * event.sectors);
    moved(traffic, event);
    return;
  }
  auto& bundle = at(event.bundle);
  bundle.last = std::max(bundle.last, picoseconds(event.ns));
  if (event.kind == Kind::queued) {
    bundle.unqueued -= event.sectors;
    if (bundle.unqueued == 0) events.push_back({MemoryEvent::Kind::queued, event.bundle, bundle.last});
    return;
  }
  if (event.kind == Kind::served) moved(bundle.traffic, event);
  bundle.unserved -= event.sectors;
  if (bundle.unserved == 0) events.push_back({MemoryEvent::Kind::served, event.bundle, bundle.last});
}

void MemorySystem::drain() {
  for (auto& partition : partitions_) partition.channel().arbiter().drain();
}

std::int64_t MemorySystem::commands() const {
  std::int64_t sum = 0;
  for (auto const& partition : partitions_) sum += partition.channel().commands();
  return sum;
}

OverlapRun MemorySystem::totals() const {
  OverlapRun run;
  run.bytes = bytes_;
  run.events = commands();
  run.queue_peak = channel(0).peak_occupancy();
  run.series = series_;
  return run;
}

}  // namespace tessera::overlap
