// SPDX-License-Identifier: Apache-2.0
// What one block of a stage costs on a machine, before anybody shares anything.
#pragma once

#include <cstdint>
#include <vector>

#include "event_queue.hpp"
#include "tessera/measure/machine_profile.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera::simulation {

/// That one block moves. Those of L2 count every read of it, of which a cluster's blocks share some; those of
/// DRAM are the block's share of what is distinct.
struct Bytes {
  double l2 = 0;
  double dram = 0;

  Bytes& operator+=(Bytes const& more) {
    l2 += more.l2;
    dram += more.dram;
    return *this;
  }
  Bytes operator*(double part) const { return {l2 * part, dram * part}; }
};

struct StageCost {
  // Main loop, one block.
  Bytes loads;
  double flops = 0;
  int slices_in_flight = 1;    ///< pipeline stages, at most the number of main-loop slices
  double least_load_time = 0;  ///< ps: what it loads at the most that the block's slices in flight allow; of
                               ///< a measured block its time alone on an SM
  double port_time = 0;        ///< ps: all bytes that a whole tile loads at the most that one SM can load

  // Early loads (R, or the prologue of a PDL kernel): the first slices of operands without a producer.
  Bytes early;

  // Of these, what a cluster's blocks load together, each a part of it, for all of them.
  Bytes shared, early_shared;
  double shared_port_time = 0;

  // Epilogue.
  Bytes store;

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
  /// Blocks beside the stage's own that only fill clusters up (padding.hpp).
  std::int64_t padding = 0;

  // Of a launch that is not looked into: what it moves all the same.
  double counted_dram_bytes = 0;
  bool memory_bound = false;  ///< `end` is the time that these take
};

/// What a block that only pads costs: it waits and computes as the others of its cluster do and loads its
/// part of what they share; it stores and posts nothing.
StageCost padding_cost(StageCost const& cost);

/// One per stage, at a clock: matrix units and measured kernels follow it; L2, the load ports, DRAM and
/// latencies do not. An operand that another stage writes costs no DRAM traffic when it fits in L2.
std::vector<StageCost> stage_costs(Plan const& plan, MachineProfile const& machine, double clock_ghz);

/// From submission to the first block. Less where the plan is chained to whatever runs before it: its launch
/// is then hidden, up to what a wait for the grid before costs.
double first_launch_ns(Plan const& plan, MachineProfile const& machine);

}  // namespace tessera::simulation
