// SPDX-License-Identifier: Apache-2.0
// Tiles of a loop with roles: which SM computes which, what each waits for, and when others see them.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "event_queue.hpp"
#include "tessera/simulate/role_loop.hpp"

namespace tessera::simulation {

/// One tile that an SM computes.
struct RoleTile {
  long long iteration = 0;
  int stage = 0;  ///< of the body
  int tile = 0;
};

/// Tiles of all stages and iterations by worker, in the lists in which the host deals them
/// (tessera/plan/deal.hpp).
std::vector<std::vector<RoleTile>> dealt_tiles(RoleLoop const& loop);

/// What rings of the kernel have at least, bytes of a slot of weights and of one of activations: room for the
/// largest load of any stage, in whole kilobytes.
struct RoleSlotBytes {
  long long slot = 0;
  long long late_slot = 0;
};
RoleSlotBytes least_bytes(RoleLoop const& loop);

/// A list of tiles of one stage in one iteration that somebody waits for, in order.
struct RoleAwaited {
  long long iteration = 0;
  int stage = 0;
  std::vector<int> const* tiles = nullptr;
  std::size_t count = 0;  ///< the first so many
  std::size_t at = 0;     ///< of them complete
};

/// Tiles that tiles wait for, all of an iteration.
double awaited_tiles(RoleLoop const& loop);

/// What is waited for, and how far one has got.
struct RoleWait {
  std::vector<RoleAwaited> lists;
  std::size_t tiles() const {
    std::size_t sum = 0;
    for (auto const& one : lists) sum += one.count;
    return sum;
  }
  Picoseconds seen = 0;  ///< when the last of those so far was
};

class RoleTiles {
 public:
  explicit RoleTiles(RoleLoop const& loop);

  /// What the tile's input needs; nothing of it, until need() says how much.
  RoleWait input(RoleTile const& tile) const;
  /// Wait for what the first `part` of `parts` of it need, not less than before.
  static void need(RoleWait& wait, int part, int parts);
  /// What must be complete before the tile stores.
  RoleWait before_stores(RoleTile const& tile) const;

  /// Does the stage's output carry the iteration in its words? Else a semaphore says that it is there.
  bool writes_words(int stage) const { return words_[static_cast<std::size_t>(stage)]; }
  /// Is that so for anything that the tile reads of others?
  bool reads_words(RoleTile const& tile) const;

  /// True: all of it is complete, and `wait.seen` says from when on. False: `waiter` comes out of complete()
  /// of the tile that is missing.
  bool look(RoleWait& wait, int waiter);
  /// Others see the tile from `seen` on. Returns who waits for it.
  std::vector<int> complete(RoleTile const& tile, Picoseconds seen);

 private:
  struct Edge {
    int producer = 0;
    long long distance = 0;
    std::vector<std::vector<int>> tiles;  ///< by consumer tile
  };
  struct Reuse {
    int writer = 0;  ///< of the period
    int reader = 0;
    long long distance = 0;  ///< periods
  };
  struct Instance {
    std::vector<Picoseconds> seen;  ///< by tile; k_never: not complete
    std::map<int, std::vector<int>> waiters;
  };
  Instance& instance(long long iteration, int stage);

  int stages_;
  long long period_;
  std::vector<std::vector<Edge>> edges_;  ///< by consumer
  std::vector<Reuse> reuses_;
  std::vector<bool> words_;            ///< by stage
  std::vector<std::vector<int>> all_;  ///< tiles of each stage: 0, 1, 2, ...
  std::vector<Instance> instances_;
};

}  // namespace tessera::simulation
