// SPDX-License-Identifier: Apache-2.0
#include "overlap/gathered_panels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tessera::overlap {
namespace {

/// The own panels lie in memory already: what a producer would store at the peers is copied there, by one
/// command for all of them.
OutputConfiguration copied_from_memory(OutputConfiguration panels) {
  if (!panels.remote.empty()) {
    auto const& map = panels.remote.front();
    panels.dma_map(map.tiles, map.peer, map.operation, 1);
  }
  return panels;
}

}  // namespace

std::int64_t pieces_of_panel(MachineProfile const& machine, double bytes) {
  auto const& hardware = *machine.overlap;
  return std::max<std::int64_t>(
      1, std::llround(std::ceil(bytes / (hardware.channels * hardware.channel_interleave))));
}

GatheredPanels::GatheredPanels(MachineProfile const& machine, OutputConfiguration const& panels, double bytes,
                               MemorySystem& memory, System& system, int node,
                               std::vector<std::vector<std::int64_t>> const* mirrored_panel)
    : panels_(copied_from_memory(panels)),
      memory_(memory),
      system_(system),
      mirrored_panel_(mirrored_panel),
      row_bytes_(machine.overlap->row_bytes),
      pieces_(pieces_of_panel(machine, bytes / static_cast<double>(panels.tiles))),
      piece_bytes_(bytes / static_cast<double>(panels.tiles * pieces_)),
      tracker_(machine.overlap->tracker_sets, machine.overlap->tracker_ways, panels.tiles, 1),
      triggers_(panels_, static_cast<int>(pieces_)),
      copies_(machine.overlap->dma_read_ahead_kib * 1024.0),
      missing_(static_cast<std::size_t>(panels.tiles), pieces_),
      is_own_(missing_.size(), false),
      copy_component_(system.add_component(ComponentKind::copy_engine, node, 1, 0)) {
  for (std::int64_t i = 0; i < panels_.produced; ++i) {
    auto const own = static_cast<std::size_t>(panels_.order[static_cast<std::size_t>(i)]);
    missing_[own] = 0;
    is_own_[own] = true;
  }
}

void GatheredPanels::start() {
  for (std::int64_t i = 0; i < panels_.produced; ++i)
    for (std::int64_t piece = 0; piece < pieces_; ++piece)
      send_on(panels_.order[static_cast<std::size_t>(i)] * pieces_ + piece, 0);
}

void GatheredPanels::send_on(std::int64_t piece, Picoseconds now) {
  triggers_.complete(piece, 0, [&](CopyCommand const& command) {
    copies_.add(&command, now);
    wake_copies(now);
  });
}

/// In a channel. A lies at the beginning of memory. Equal places of all chunks come at once over links to all
/// peers: each chunk counts from two rows of memory later on, as those of a direct collective alone, because
/// GPUs hash addresses against such strides.
std::uint64_t GatheredPanels::base_of(std::int64_t piece) const {
  return static_cast<std::uint64_t>(chunk(piece)) * 2 * static_cast<std::uint64_t>(row_bytes_);
}

void GatheredPanels::receive(Packet const& packet, Picoseconds now) {
  auto const bundle = memory_.open(BundleKind::gathered, Traffic::collective_write, packet.unit);
  memory_.count(Traffic::collective_write, piece_bytes_);
  memory_.add_unit(bundle, Stream::communication, AccessKind::write, now, base_of(packet.unit), packet.unit,
                   piece_bytes_);
}

bool GatheredPanels::arrived(std::int64_t piece, Picoseconds now) {
  last_ = std::max(last_, now);
  send_on(piece, now);
  auto const panel = piece / pieces_;
  --missing_[static_cast<std::size_t>(panel)];
  return tracker_.update(panel, 1, static_cast<std::int32_t>(pieces_));
}

void GatheredPanels::wake_copies(Picoseconds at) {
  if (at >= copy_wake_) return;
  copy_wake_ = at;
  system_.queue().wake(copy_component_, at);
}

void GatheredPanels::start_copies(Picoseconds now) {
  copy_wake_ = simulation::k_never;
  while (auto const* command = copies_.next(now, piece_bytes_))
    for (auto const piece : command->regions) {
      auto const owner = triggers_.index(*command) * pieces() + piece;
      auto const bundle = memory_.open(BundleKind::copy, Traffic::collective_read, owner);
      if (recorder_) recorder_->read_begins(chunk(piece), now, piece_bytes_);
      memory_.count(Traffic::collective_read, piece_bytes_);
      memory_.add_unit(bundle, Stream::communication, AccessKind::read, now, base_of(piece), piece,
                       piece_bytes_);
    }
  if (auto const at = copies_.resume_at(now); at != simulation::k_never) wake_copies(std::max(at, now + 1));
}

void GatheredPanels::copied(std::int64_t owner, Picoseconds now) {
  auto const piece = owner % pieces();
  auto const& command = triggers_.command(static_cast<std::int32_t>(owner / pieces()));
  if (recorder_) recorder_->read_ends(chunk(piece), now);
  auto left = now;
  if (is_own(piece / pieces_))
    for (auto const& map : panels_.remote) left = std::max(left, send(map.peer, piece, now));
  else
    left = send(command.peer, piece, now);
  last_ = std::max(last_, left);
  copies_.sent(left, piece_bytes_);
  wake_copies(left);
}

Picoseconds GatheredPanels::send(int peer, std::int64_t piece, Picoseconds now) {
  auto panel = piece / pieces_;
  if (mirrored_panel_ != nullptr)
    panel = (*mirrored_panel_)[static_cast<std::size_t>(peer)][static_cast<std::size_t>(panel)];
  auto const left =
      system_.send(panels_.gpu, peer, {0, panel * pieces_ + piece % pieces_, false, piece_bytes_}, now);
  if (recorder_) recorder_->sends(peer, chunk(piece), left, piece_bytes_);
  return left;
}

std::string GatheredPanels::unfinished() const {
  for (std::size_t panel = 0; panel < missing_.size(); ++panel)
    if (missing_[panel] != 0)
      return fmt::format("GPU {}: panel {} of A received {} of {} pieces", panels_.gpu, panel,
                         pieces_ - missing_[panel], pieces_);
  return "";
}

}  // namespace tessera::overlap
