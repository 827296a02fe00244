// SPDX-License-Identifier: Apache-2.0
// A GPU that runs one GEMM and, as it goes, sends its output where the configuration says.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "overlap/copy_engine.hpp"
#include "overlap/gathered_panels.hpp"
#include "overlap/memory_system.hpp"
#include "overlap/recorder.hpp"
#include "overlap/sm_ports.hpp"
#include "overlap/store_path.hpp"
#include "overlap/system.hpp"
#include "overlap/tile_route.hpp"
#include "overlap/tracker.hpp"
#include "overlap/trigger_table.hpp"

namespace tessera::overlap {

/// What all GPUs of a run have in common.
struct GemmSetup {
  MachineProfile const& machine;
  GemmProblem const& problem;
  GemmKernel const& kernel;
  OverlapOptions const& options;
  bool cached_output;
};

class GemmNode : public Endpoint {
 public:
  /// `mirrored_tile` by peer and tile: where what is sent to a peer arrives here; null: it goes to the peer.
  GemmNode(GemmSetup const& setup, System& system, int node, OutputConfiguration const& output,
           std::vector<std::vector<std::int64_t>> const* mirrored_tile);

  void record(Recorder& recorder);
  /// A's panels come from other GPUs, and tiles start when theirs has. `mirrored_panel`: as mirrored_tile.
  void gather(OutputConfiguration const& panels,
              std::vector<std::vector<std::int64_t>> const* mirrored_panel);
  void start() override;
  void wake(Component component, Picoseconds now) override;
  void receive(Packet const& packet, Picoseconds now) override;

  /// What did not happen that should have: nothing, if the run is whole.
  std::string unfinished() const;
  OverlapRun result() const;

 private:
  enum class Phase : std::uint8_t { idle, starting, loading, computing, storing, leaving, summing, summed };
  struct Slot {  // a slice on its way to an SM
    bool pending = false;
    Picoseconds ready = 0;
  };
  struct WorkGroup {
    Phase phase = Phase::idle;
    std::int32_t sm = 0;
    std::int64_t tile = 0;
    std::int32_t split = 0;
    std::int64_t slice = 0;      ///< to be computed next
    std::int64_t slice_end = 0;  ///< of the split
    std::int32_t wavefront = 0;
    std::int32_t stores = 0;  ///< not acknowledged yet
    Picoseconds compute_end = 0;
    std::vector<Slot> slots;
  };

  // Work-groups (gemm_node.cpp).
  void next_tile(int group, Picoseconds now);
  void load(int group, std::int64_t slice, Picoseconds now);
  std::vector<LineSectors> const& lines_of(bool of_b, std::int64_t panel, std::int64_t slice);
  void loaded(std::int64_t slot, Picoseconds time);
  void compute(int group, Picoseconds now);
  void await_slice(int group);
  void store(int group, Picoseconds now);
  void stored(int group, Picoseconds now);
  void leave(int group, Picoseconds now);
  void memory_event(MemoryEvent const& event);

  // Sums of partial sums (gemm_node_splits.cpp).
  void take_split(WorkGroup& group, std::int64_t position);
  std::int64_t work_groups() const { return output_.produced * setup_.kernel.splits; }
  std::uint64_t base_of_split(int split) const;
  void rest(int group, Picoseconds now);
  void next_sum(int group, Picoseconds now);
  void sum(int group, Picoseconds now);

  // Gathered input (gemm_node_input.cpp).
  bool awaits_input(int group);
  void queued(Bundle const& bundle, Picoseconds now);
  void panel_arrived(Picoseconds now);

  // Routes (gemm_node_routes.cpp).
  void leave_sm(int group, std::int64_t region, Picoseconds now);
  void store_cached(int group, std::int64_t region, Picoseconds now);
  AccessKind access_of(bool update) const;
  void counted(std::int64_t region, std::int32_t atoms, Picoseconds now);
  void copied(std::int64_t owner, Picoseconds now);
  void start_copies(Picoseconds now);
  void wake_copies(Picoseconds at);
  Picoseconds send(int peer, std::int64_t region, bool update, Picoseconds now);

  std::int64_t regions() const { return static_cast<std::int64_t>(arrived_.size()); }
  std::int64_t tile_x(std::int64_t tile) const { return tile % columns_; }
  std::int64_t tile_y(std::int64_t tile) const { return tile / columns_; }
  std::int64_t chunk(std::int64_t region) const {
    auto const tile = static_cast<std::size_t>(region / setup_.kernel.wavefronts);
    return output_.chunk_of.empty() ? 0 : output_.chunk_of[tile];
  }
  GemmSetup setup_;
  OverlapHardware const& hardware_;
  System& system_;
  int node_;
  int gpu_;
  OutputConfiguration const& output_;
  std::vector<std::vector<std::int64_t>> const* mirrored_tile_;
  Operand a_, b_;
  std::int64_t columns_, rows_;
  MemorySystem memory_;
  std::vector<std::vector<LineSectors>>
      lines_;  ///< by slices of A's panels, then of B's; found when first asked for
  std::vector<Picoseconds> matrix_free_;  ///< by SM: when its matrix unit is free
  SmPorts ports_;
  std::vector<WorkGroup> groups_;
  std::optional<GatheredPanels> gathered_;
  std::deque<int> waiting_groups_;  ///< for a panel of A
  int first_group_component_ = 0;
  int copy_component_ = 0;
  Picoseconds copy_wake_ = simulation::k_never;
  std::int64_t next_position_ = 0;  ///< in the order of tiles, split by split
  std::int64_t groups_done_ = 0;    ///< work-groups that have stored all
  std::size_t resting_ = 0;         ///< places without another work-group to come
  std::int64_t next_sum_ = 0;       ///< wavefront tile
  std::vector<TileRoute> routes_;
  Tracker tracker_;
  TriggerTable triggers_;
  CopyEngine copies_;
  double region_bytes_;  ///< the driver's size of a wavefront's tile: output over wavefronts (section 4.2.1)
  std::uint64_t output_base_;
  StorePath stores_;
  std::vector<std::int8_t> phase_;     ///< by wavefront tile: triggered so often
  std::vector<std::int32_t> arrived_;  ///< requests of 32 bytes, by wavefront tile, local and incoming
  std::vector<MemoryEvent> events_;
  std::int32_t region_atoms_;
  Picoseconds slice_time_, block_start_, store_time_;
  Picoseconds gemm_end_ = 0, sums_start_ = 0;
  Picoseconds last_ = 0;
  Recorder* recorder_ = nullptr;
};

}  // namespace tessera::overlap
