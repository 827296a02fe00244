// SPDX-License-Identifier: Apache-2.0
// What a machine can do and what synchronization costs on it, as numbers with sources. The planner
// and the simulator know a GPU only through this value.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "../describe/pipeline.hpp"
#include "overlap_hardware.hpp"
#include "probe.hpp"

namespace tessera {

/// How long a compiled kernel takes inside an SM, measured by running it alone.
struct KernelTiming {
  double slice_cycles = 0;     ///< one slice of the main loop, with its data there
  double tile_end_cycles = 0;  ///< last slice done -> tile stored, when the block has nothing else to do
  double next_tile_cycles =
      0;                   ///< ... -> first slice of a persistent block's next tile, whose loads went ahead
  int waits_per_poll = 1;  ///< semaphores that one round trip asks for
  std::string source;
  double gelu_cycles =
      0;  ///< more between two tiles, and behind the last, where a stage's activation is GeLU
  /// Tiles of a cluster, down (rows) and across: a grid that they do not divide runs tiles that only pad.
  int cluster_rows = 1, cluster_columns = 1;

  bool operator==(KernelTiming const&) const = default;
};

/// Units are in the names. Every field's origin is in `sources` under the field's name.
struct MachineProfile {
  std::string name;          ///< "h200"
  std::string gpu;           ///< "NVIDIA H200 SXM"
  std::string architecture;  ///< "sm_90": which kernels of the catalogue it runs; "": told from what it has
  bool provisional = false;  ///< true: not measured by `tessera probe`

  // What an SM can hold.
  int sms = 0;
  int threads_per_sm = 2048;
  int blocks_per_sm = 32;
  int registers_per_sm = 65536;
  int register_granularity = 256;  ///< registers are given out to a warp in multiples of this
  int shared_bytes_per_sm = 0;
  int shared_bytes_per_block = 0;  ///< largest opt-in allocation of one block
  int shared_granularity = 128;
  int shared_reserved_per_block = 0;  ///< taken by the system for each block

  // Rates.
  double clock_ghz = 0;
  double matrix_flops_per_clock_per_sm = 0;  ///< dense fp16/bf16, fp32 accumulate
  double matrix_efficiency = 1;              ///< share of that a full main loop reaches
  /// Of one SM in a full main loop at a clock.
  double matrix_flops_per_ns(double at_ghz) const {
    return matrix_flops_per_clock_per_sm * at_ghz * matrix_efficiency;
  }
  double matrix_flops_per_ns() const { return matrix_flops_per_ns(clock_ghz); }
  double dram_gbps = 0;  ///< measured or sustained read bandwidth, 1e9 bytes/s
  double dram_gb = 0;    ///< how much memory there is, 1e9 bytes; 0: not said
  double l2_gbps = 0;
  double l2_mib = 0;
  double sm_load_gbps = 0;          ///< most that one SM can load, 1e9 bytes/s
  int l2_parts = 1;                 ///< parts of L2 that each keep a copy of what their SMs read
  bool asynchronous_loads = false;  ///< a copy engine fills shared memory: loads hide behind the main loop

  // Power. With a limit, clock_ghz is only the highest clock, and what runs again and again goes at the clock
  // at which idle + (clock / clock_ghz)^exponent * (clocks + operations + bytes through L2) + bytes of DRAM
  // is the limit.
  double power_limit_w = 0;  ///< 0: the clock is clock_ghz
  double power_burst_w = 0;  ///< the same for a few milliseconds after a rest
  double power_idle_w = 0;
  double power_w_per_ghz = 0;
  double power_exponent = 0;
  double pj_per_flop = 0;
  double pj_per_l2_byte = 0;
  double pj_per_dram_byte = 0;

  // Latencies, nanoseconds.
  double dram_latency_ns = 0;
  double launch_ns = 0;         ///< first kernel of a chain: from submission to its first block
  double stream_gap_ns = 0;     ///< same stream: last block of A done -> first block of B starts
  double pdl_gap_ns = 0;        ///< all blocks of A have triggered -> first block of B starts
  double pdl_grid_wait_ns = 0;  ///< A complete -> a waiting block of B goes on
  double stream_start_ns = 0;   ///< two streams: wait kernel done -> first block of B starts
  double block_start_ns = 0;    ///< a block's prologue (set-up, barriers, descriptors)
  double ticket_ns = 0;         ///< atomic ticket plus the order's look-up
  double post_ns = 0;           ///< last store done -> semaphore visible (barrier, fence, atomic)
  double store_post_ns = 0;     ///< the same with a plain release store
  double wait_ns = 0;           ///< semaphore visible -> waiting block goes on; also a wait already met
  double trigger_ns = 0;        ///< block start -> its PDL trigger counts

  // What the hardware was seen to do.
  bool has_pdl = false;                     ///< sm_90 and later
  bool dispatches_in_launch_order = false;  ///< blocks of an older kernel go first, across streams

  std::optional<OverlapHardware> overlap;  ///< links and memory channels, for what runs on several GPUs

  std::optional<Probe> probe;  ///< what the values come from, where the machine was measured

  std::map<std::string, KernelTiming> kernels;  ///< by the catalogue's name
  std::map<std::string, std::string> sources;

  bool operator==(MachineProfile const&) const = default;
};

/// Blocks of these resources that one SM of this machine can hold at once; 0 if not even one fits.
/// Registers are rounded per warp, shared memory per block (CUDA occupancy rules).
int occupancy(MachineProfile const& machine, Resources const& resources);

/// Which resource stops one more block: "threads", "registers", "shared memory" or "block slots".
std::string occupancy_limiter(MachineProfile const& machine, Resources const& resources);

}  // namespace tessera
