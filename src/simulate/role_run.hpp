// SPDX-License-Identifier: Apache-2.0
// A launch with roles, event by event: loaders and computing warps of each SM, and the memory they share.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "event_queue.hpp"
#include "role_loads.hpp"
#include "role_tiles.hpp"
#include "tessera/simulate/role_loop.hpp"

namespace tessera::simulation {

constexpr int k_most_early_warps = 8;
constexpr int k_most_late_warps = 8;

/// Slots of activations of a tile; 0: none.
int late_slots_of(RoleWork const& work);

/// What one SM did with one of its tiles.
struct RoleRecord {
  RoleTile tile;
  Picoseconds ready = 0;        ///< warps could have begun: the tile before is posted
  Picoseconds begun = 0;        ///< the first slot is multiplied
  Picoseconds results = 0;      ///< of ready...begun: results of others were not there
  Picoseconds activations = 0;  ///< ... were being loaded
  Picoseconds weights = 0;      ///< ... weights were not there
  Picoseconds multiplied = 0;   ///< the last slot is
  Picoseconds stored = 0;
  Picoseconds posted = 0;
  Picoseconds later_weights = 0;      ///< waits behind the first slot
  Picoseconds later_activations = 0;  ///< the same
  int full_slots = 0;                 ///< when it began
};

class RoleRun {
 public:
  RoleRun(RoleLoop const& loop, RoleMachine const& machine);

  /// Until all SMs are done. False: somebody waits for ever.
  bool run();
  /// By SM, in the order of its tiles.
  std::vector<std::vector<RoleRecord>> const& records() const { return records_; }
  Picoseconds end() const { return end_; }
  double dram_bytes() const { return loads_.dram_bytes(); }

 private:
  /// A slot of a ring, by its number from the launch's begin on.
  struct Slot {
    bool full = false;
    Picoseconds landed = 0;
    Picoseconds results = 0;  ///< of the late ring: what it holds was seen
  };
  /// A warp that fills the late ring: of the tile's slots first, first + warps, ...
  struct LateWarp {
    enum class Doing { beginning, waiting, filling } doing = Doing::beginning;
    std::size_t tile = 0;  ///< of the SM's
    int next = 0;          ///< slot of the tile
    int end = 0;           ///< of the group that is looked for together
    Picoseconds free_at = 0;
    Picoseconds first_look = 0;  ///< returns, of the group
    std::size_t looked = 0;      ///< tiles, for the groups before
    RoleWait wait;
  };
  struct Sm {
    std::vector<RoleTile> tiles;
    std::vector<std::int64_t> first_slot, first_late_slot;  ///< by tile, and one behind the last
    std::vector<Slot> early, late;                          ///< the rings
    // Loader of weights.
    std::size_t early_tile = 0;
    std::int64_t issued = 0, released = 0;
    std::array<Picoseconds, k_most_early_warps> issuing_until = {};
    double bytes_in_flight = 0;
    int full = 0;
    // Loader of activations.
    std::array<LateWarp, k_most_late_warps> warps;
    std::int64_t late_released = 0;
    // Computing warps.
    enum class Doing { waiting, multiplying, ending, storing, posting } doing = Doing::waiting;
    std::size_t tile = 0;
    int slot = 0;  ///< of the tile
    Picoseconds since = 0;
    RoleWait wait;
  };

  void load_early(int s, Picoseconds now);
  bool may_issue(Sm const& of) const;
  void load_late(int s, int warp, Picoseconds now);
  void wake_late(int s, Picoseconds now);
  void compute(int s, Picoseconds now);
  void begin_tile_function(int s, Picoseconds now);
  void begin_slot(int s, Picoseconds now);
  void end_slot(int s, Picoseconds now);
  void store(int s, Picoseconds now);
  void next_tile(int s, Picoseconds now);
  void landed(RoleLoad const& load, Picoseconds now);
  /// All that a tile function waits for.
  RoleWait whole_input(RoleTile const& tile) const;

  RoleWork const& work(RoleTile const& tile) const {
    return loop_.work[static_cast<std::size_t>(tile.stage)];
  }
  Sm& sm(int s) { return sms_[static_cast<std::size_t>(s)]; }
  RoleRecord& record(int s) { return records_[static_cast<std::size_t>(s)][sm(s).tile]; }
  int component(int s, int role) const { return first_component_ + s * k_roles + role; }
  Slot& early(Sm& of, std::int64_t slot) const {
    return of.early[static_cast<std::size_t>(slot) % of.early.size()];
  }
  Slot& late(Sm& of, std::int64_t slot) const {
    return of.late[static_cast<std::size_t>(slot) % of.late.size()];
  }

  static constexpr int k_compute = 0, k_early = 1, k_late = 2, k_roles = k_late + k_most_late_warps;

  RoleLoop const& loop_;
  RoleMachine const& machine_;
  EventQueue queue_;
  RoleTiles tiles_;
  RoleLoads loads_;
  int first_component_ = 0;
  std::vector<Sm> sms_;
  std::vector<std::vector<RoleRecord>> records_;
  Picoseconds end_ = 0;
};

}  // namespace tessera::simulation
