// SPDX-License-Identifier: Apache-2.0
// A loop as one launch with roles (docs/tile-operations.md), without a GPU: how long it takes, and how long
// its boundaries between stages stand still, and for what.
#pragma once

#include <string>
#include <vector>

#include "../plan/loop_plan.hpp"
#include "role_machine.hpp"

namespace tessera {

/// What every tile of a stage of the body does.
struct RoleWork {
  int slots = 0;                ///< of the ring of weights; 0: a tile function, which loads by itself
  double slot_bytes = 0;        ///< loaded into each
  int loads_per_slot = 1;       ///< that a thread issues for it
  int slots_per_late_slot = 1;  ///< of weights, multiplied by one slot of activations
  double late_slot_bytes = 0;   ///< loaded into each slot of activations
  int late_warps = 1;           ///< that fill them in turns
  int late_slots_at_once = 1;   ///< of one warp, looked for together
  bool whole_input = false;     ///< false: a slot needs only the producers of its part of the input
  double slot_ns = 0;           ///< to multiply a slot, besides turns of rings
  double end_ns = 0;            ///< last slot multiplied -> last store; of a tile function: all that it does
};

/// RoleRings (tessera/plan/role_rings.hpp), as far as the simulator asks.
struct RoleRingSizes {
  int slots = 3;
  int in_flight = 0;         ///< of the first slots of a tile, as many as the ring has; 0: all
  int in_flight_within = 0;  ///< of the rest of a tile; 0: all
  int late_slots = 4;
};

struct RoleLoop {
  LoopPlan plan;               ///< of plan_loop(); its `tokens` say which stages' results travel as words
  std::vector<RoleWork> work;  ///< of each stage of the body
  RoleRingSizes rings;
  long long iterations = 1;
  /// RoleOptions::tile_bytes: bytes by which tiles are dealt in lists, for each stage of the body; empty: all
  /// tiles are alike. Blocks that draw their tiles (Dealing::queue) are not simulated.
  std::vector<long long> tile_bytes = {};
};

/// Where a block goes from one stage's tile to its next one, which may be of the next iteration. Nanoseconds,
/// means over SMs and iterations; the five parts add up to the time in which nothing is multiplied.
struct RoleBoundary {
  std::string from, to;
  double end_ns = 0;          ///< to the last store
  double post_ns = 0;         ///< to tell others by a semaphore
  double results_ns = 0;      ///< waits for what other SMs compute
  double activations_ns = 0;  ///< waits for the load of it, behind that
  double weights_ns = 0;      ///< waits for the ring of weights, behind both
  double most_ns = 0;         ///< the longest on any SM, all parts
  double full_slots = 0;      ///< of the ring of weights, when it goes on
  double apart_ns = 0;        ///< first SM has multiplied its last slot of the stage before -> last SM has

  double still_ns() const { return end_ns + post_ns + results_ns + activations_ns + weights_ns; }
};

/// One tile of a stage, between its boundaries; nanoseconds, means.
struct RoleStageTime {
  std::string name;
  double multiply_ns = 0;     ///< with turns of rings
  double weights_ns = 0;      ///< waits behind the first slot
  double activations_ns = 0;  ///< the same, for producers too
};

struct RolePrediction {
  double total_ns = 0;
  double iteration_ns = 0;  ///< of the total
  double steady_ns = 0;     ///< of an iteration behind the first; 0: there is only one
  double dram_share = 0;    ///< bytes of weights by what the memory could have read in all this time
  std::vector<RoleBoundary> boundaries;  ///< by the stage that they lead to; none if a block has one tile
  std::vector<RoleStageTime> stages;
};

/// Slots of an iteration, and tiles that its tiles wait for: the time that simulating it takes grows with
/// them.
double role_steps(RoleLoop const& loop);

/// Deterministic and pure. Refuses (E0506) plans that are not one persistent launch, work that no tile can
/// have, and runs of more than 2e6 tiles, 2e8 slots, or a time that is not counted in 64 bits; and (E0564)
/// rings that the kernel cannot have, whose slots have at least the bytes that are loaded into them, in whole
/// kilobytes.
Expected<RolePrediction> simulate_roles(RoleLoop const& loop, RoleMachine const& machine);

}  // namespace tessera
