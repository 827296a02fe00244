// SPDX-License-Identifier: Apache-2.0
// The rows of A that a GPU gathers from its peers while its GEMM runs (T3, section 7.2).
#pragma once

#include <string>
#include <vector>

#include "overlap/copy_engine.hpp"
#include "overlap/memory_system.hpp"
#include "overlap/recorder.hpp"
#include "overlap/system.hpp"
#include "overlap/tracker.hpp"
#include "overlap/trigger_table.hpp"

namespace tessera::overlap {

/// In how many pieces a panel of so many bytes is sent.
std::int64_t pieces_of_panel(MachineProfile const& machine, double bytes);

/// Panels of A as an address space that copy commands and a Tracker are configured for. Pieces, one line of
/// every memory channel each, are sent on as they come; the Tracker counts a panel's pieces, and the last one
/// lets the work-groups start that read it. What the GPU has itself is sent from the start on.
class GatheredPanels {
 public:
  /// `bytes`: of A. `mirrored_panel`: as GemmNode's mirrored_tile. The references outlive the object.
  GatheredPanels(MachineProfile const& machine, OutputConfiguration const& panels, double bytes,
                 MemorySystem& memory, System& system, int node,
                 std::vector<std::vector<std::int64_t>> const* mirrored_panel);

  void record(Recorder& recorder) { recorder_ = &recorder; }
  void start();
  bool is_here(std::int64_t panel) const { return missing_[static_cast<std::size_t>(panel)] == 0; }
  void receive(Packet const& packet, Picoseconds now);
  /// A piece has gone into the memory's queues, and who reads now sees it. True if its panel is complete.
  bool arrived(std::int64_t piece, Picoseconds now);
  /// `owner`: of a copy's read.
  void copied(std::int64_t owner, Picoseconds now);
  void start_copies(Picoseconds now);

  Picoseconds last() const { return last_; }
  Tracker const& tracker() const { return tracker_; }
  std::string unfinished() const;

 private:
  bool is_own(std::int64_t panel) const { return is_own_[static_cast<std::size_t>(panel)]; }
  void send_on(std::int64_t piece, Picoseconds now);
  std::uint64_t base_of(std::int64_t piece) const;
  Picoseconds send(int peer, std::int64_t piece, Picoseconds now);
  void wake_copies(Picoseconds at);
  std::int64_t pieces() const { return panels_.tiles * pieces_; }
  std::int32_t chunk(std::int64_t piece) const {
    return panels_.chunk_of.empty() ? 0 : panels_.chunk_of[static_cast<std::size_t>(piece / pieces_)];
  }

  OutputConfiguration panels_;
  MemorySystem& memory_;
  System& system_;
  std::vector<std::vector<std::int64_t>> const* mirrored_panel_;
  int row_bytes_;        ///< of a bank
  std::int64_t pieces_;  ///< of a panel
  double piece_bytes_;
  Tracker tracker_;
  TriggerTable triggers_;
  CopyEngine copies_;
  std::vector<std::int64_t> missing_;  ///< pieces, by panel
  std::vector<bool> is_own_;           ///< by panel
  int copy_component_;
  Picoseconds copy_wake_ = simulation::k_never;
  Picoseconds last_ = 0;
  Recorder* recorder_ = nullptr;
};

}  // namespace tessera::overlap
