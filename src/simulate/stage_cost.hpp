// SPDX-License-Identifier: Apache-2.0
// What one block of a stage costs on a machine, before anybody shares anything.
#pragma once

#include <cstdint>
#include <vector>

#include "event_queue.hpp"
#include "tessera/measure/machine_profile.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera::simulation {

struct StageCost {
  // Main loop, one block. Bytes of L2 count every read of it, of which a cluster's blocks share some; bytes
  // of DRAM a block's share of what is distinct.
  double l2_bytes = 0;
  double dram_bytes = 0;
  double flops = 0;
  int slices_in_flight = 1;    ///< pipeline stages, at most the number of main-loop slices
  double least_load_time = 0;  ///< ps: l2_bytes at the most that the block's slices in flight allow; of a
                               ///< measured block its time alone on an SM
  double port_time = 0;        ///< ps: all loaded bytes at the most that one SM can load

  // Early loads (R, or the prologue of a PDL kernel): the first slices of operands without a producer.
  double early_l2_bytes = 0;
  double early_dram_bytes = 0;

  // Epilogue.
  double store_l2_bytes = 0;
  double store_dram_bytes = 0;

  // Fixed times.
  Picoseconds end = 0;      ///< last slice done -> tile stored, at least; runs beside the stores
  Picoseconds next = 0;     ///< the same where the block goes on to another tile
  int waits_per_poll = 1;   ///< waits already met that one round trip covers
  Picoseconds start = 0;    ///< prologue
  Picoseconds latency = 0;  ///< of the first loads behind a start or a wait
  Picoseconds ticket = 0;   ///< 0 if the block's own index is its position
  Picoseconds post = 0;
  bool loads_early = false;  ///< something to load before the first wait
  bool hides_waits = false;  ///< the round trip of a wait already met overlaps with other loads
  /// Blocks behind the stage's own that only fill clusters up: they compute, and neither load nor store.
  std::int64_t padding = 0;
};

/// What a block that only pads costs: `cost` without loads, stores and posts.
StageCost padding_cost(StageCost const& cost);

/// One per stage. An operand that another stage writes costs no DRAM traffic when it fits in L2.
std::vector<StageCost> stage_costs(Plan const& plan, MachineProfile const& machine);

/// From submission to the first block. Less where the plan is chained to whatever runs before it: its launch
/// is then hidden, up to what a wait for the grid before costs.
double first_launch_ns(Plan const& plan, MachineProfile const& machine);

}  // namespace tessera::simulation
