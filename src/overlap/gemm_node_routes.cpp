// SPDX-License-Identifier: Apache-2.0
// Where stores go: L2, memory, a peer; and what their completion sets off.
#include <fmt/format.h>

#include <algorithm>

#include "overlap/gemm_node.hpp"

namespace tessera::overlap {

/// Into L2, which writes back what it evicts. What it still holds at the end is written back behind the
/// kernel's back, while a collective waits for its links.
void GemmNode::store_cached(int group, std::int64_t region, Picoseconds now) {
  auto const split = groups_[static_cast<std::size_t>(group)].split;
  stores_.write(memory_, group, region, base_of_split(split), split * regions() + region, AccessKind::write,
                now);
  ++groups_[static_cast<std::size_t>(group)].stores;
}

/// What has left its SM goes to L2, or to the peers and past L2 to memory.
void GemmNode::leave_sm(int group, std::int64_t region, Picoseconds now) {
  if (stores_.through_l2()) return store_cached(group, region, now);
  auto const& route = routes_[static_cast<std::size_t>(region / setup_.kernel.wavefronts)];
  for (auto const m : route.remote) {
    auto const& map = output_.remote[static_cast<std::size_t>(m)];
    send(map.peer, region, map.operation == MemoryOperation::update, now);
  }
  if (!route.local) return;
  stores_.write(memory_, group, region, output_base_, region,
                access_of(output_.local == MemoryOperation::update), now);
  ++groups_[static_cast<std::size_t>(group)].stores;
}

AccessKind GemmNode::access_of(bool update) const {
  return update && setup_.options.near_memory ? AccessKind::update : AccessKind::write;
}

Picoseconds GemmNode::send(int peer, std::int64_t region, bool update, Picoseconds now) {
  auto unit = region;
  if (mirrored_tile_ != nullptr) {
    auto const tile = static_cast<std::size_t>(region / setup_.kernel.wavefronts);
    unit = (*mirrored_tile_)[static_cast<std::size_t>(peer)][tile] * setup_.kernel.wavefronts +
           region % setup_.kernel.wavefronts;
  }
  auto const left = system_.send(gpu_, peer, {0, unit, update, region_bytes_}, now);
  if (recorder_) recorder_->sends(peer, chunk(region), left, region_bytes_);
  last_ = std::max(last_, left);
  return left;
}

void GemmNode::receive(Packet const& packet, Picoseconds now) {
  last_ = std::max(last_, now);
  if (gathered_) return gathered_->receive(packet, now);
  auto const bundle = memory_.open(BundleKind::incoming, Traffic::collective_write, -1, packet.unit);
  memory_.count(Traffic::collective_write, region_bytes_);
  memory_.add_unit(bundle, Stream::communication, access_of(packet.update), now, output_base_, packet.unit,
                   region_bytes_);
}

/// Updates of a wavefront tile have gone into the queues: from here on nobody sees the old values.
void GemmNode::counted(std::int64_t region, std::int32_t atoms, Picoseconds now) {
  arrived_[static_cast<std::size_t>(region)] += atoms;
  auto const& route = routes_[static_cast<std::size_t>(region / setup_.kernel.wavefronts)];
  auto& phase = phase_[static_cast<std::size_t>(region)];
  if (static_cast<std::size_t>(phase) >= route.phases.size()) return;
  if (!tracker_.update(region, atoms, route.phases[static_cast<std::size_t>(phase)] * region_atoms_)) return;
  triggers_.complete(region, phase++, [&](CopyCommand const& command) {
    copies_.add(&command, now);
    wake_copies(now);
  });
}

void GemmNode::wake_copies(Picoseconds at) {
  if (at >= copy_wake_) return;
  copy_wake_ = at;
  system_.queue().wake(copy_component_, at);
}

void GemmNode::start_copies(Picoseconds now) {
  copy_wake_ = simulation::k_never;
  while (auto const* command = copies_.next(now, region_bytes_))
    for (auto const region : command->regions) {
      auto const owner = triggers_.index(*command) * static_cast<std::int64_t>(arrived_.size()) + region;
      auto const bundle = memory_.open(BundleKind::copy, Traffic::collective_read, owner);
      if (recorder_) recorder_->read_begins(chunk(region), now, region_bytes_);
      memory_.count(Traffic::collective_read, region_bytes_);
      memory_.add_unit(bundle, Stream::communication, AccessKind::read, now, output_base_, region,
                       region_bytes_);
    }
  if (auto const at = copies_.resume_at(now); at != simulation::k_never) wake_copies(std::max(at, now + 1));
}

/// `owner`: a command and one of its wavefront tiles.
void GemmNode::copied(std::int64_t owner, Picoseconds now) {
  auto const regions = static_cast<std::int64_t>(arrived_.size());
  auto const& command = triggers_.command(static_cast<std::int32_t>(owner / regions));
  if (recorder_) recorder_->read_ends(chunk(owner % regions), now);
  auto const left = send(command.peer, owner % regions, command.update, now);
  copies_.sent(left, region_bytes_);
  wake_copies(left);
}

std::string GemmNode::unfinished() const {
  if (gathered_)
    if (auto missing = gathered_->unfinished(); !missing.empty()) return missing;
  if (groups_done_ < work_groups())
    return fmt::format("GPU {}: {} of {} tiles are computed", gpu_, groups_done_, work_groups());
  for (std::size_t r = 0; r < arrived_.size(); ++r) {
    auto const tile = r / static_cast<std::size_t>(setup_.kernel.wavefronts);
    auto const& route = routes_[tile];
    if (setup_.cached_output || (!route.local && route.updates == 0)) continue;
    auto const expected = route.updates * region_atoms_;
    if (arrived_[r] != expected)
      return fmt::format("GPU {}: wavefront {} of tile {} received {} of {} updates per element", gpu_,
                         r % static_cast<std::size_t>(setup_.kernel.wavefronts), tile,
                         arrived_[r] / region_atoms_, route.updates);
  }
  if (auto const waiting = triggers_.waiting(); waiting > 0)
    return fmt::format("GPU {}: {} copy commands were never triggered", gpu_, waiting);
  return "";
}

OverlapRun GemmNode::result() const {
  auto run = memory_.totals();
  run.end = std::max({last_, gemm_end_, memory_.last_served(), gathered_ ? gathered_->last() : 0});
  run.gemm_end = gemm_end_;
  if (sums_start_ > 0) run.second_pass = gemm_end_ - sums_start_;
  run.compulsory_bytes =
      static_cast<double>((setup_.problem.m * setup_.problem.k + setup_.problem.k * setup_.problem.n +
                           setup_.problem.m * setup_.problem.n) *
                          k_element);
  auto const& tracker = gathered_ ? gathered_->tracker() : tracker_;
  run.tracker_peak = tracker.peak();
  run.tracker_most_in_set = tracker.most_in_set();
  run.tracker_overflows = tracker.overflows();
  auto const& first = memory_.channel(0);
  run.threshold = first.arbiter().threshold();
  run.intensity = first.arbiter().intensity();
  return run;
}

}  // namespace tessera::overlap
