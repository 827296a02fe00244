// SPDX-License-Identifier: Apache-2.0
// What the study of overlapped collectives needs to know of a machine beyond the SMs: links, the way to
// memory, memory channels, and the hardware that T3 proposes.
#pragma once

namespace tessera {

/// Units are in the names; the times of memory commands are in cycles of its clock and called as in JEDEC's
/// standard of HBM. Every field's origin is in MachineProfile::sources under "overlap." and its name.
struct OverlapHardware {
  // Links between GPUs.
  double link_gbps = 0;        ///< one link, one direction, 1e9 bytes/s
  double link_latency_ns = 0;  ///< last byte sent to last byte received

  // The way from an SM to memory and back.
  double memory_request_ns = 0;         ///< SM to memory controller
  double memory_return_ns = 0;          ///< data at the memory's pins to SM
  double l2_hit_ns = 0;                 ///< SM to L2 and back
  double sm_store_bytes_per_clock = 0;  ///< what one SM can store

  // L2: sectors of 32 bytes in lines of 128, in slices that each serve one sector a clock.
  int l2_slices = 0;           ///< of all channels together; a multiple of `channels`
  int l2_ways = 0;             ///< lines of a set
  int l2_misses = 0;           ///< sectors that a slice waits for at once; 0: no limit
  int l2_merges = 0;           ///< requests that wait for one sector; 0: no limit
  int l2_to_dram_entries = 0;  ///< sectors between a slice and its channel's queue; 0: no limit
  double l2_to_dram_ns = 0;    ///< slice to the channel's queue

  // Memory channels.
  int channels = 0;
  double dram_clock_ghz = 0;        ///< one column command, 32 bytes, a cycle
  int channel_interleave = 0;       ///< bytes of one channel before the next one's turn
  int banks = 0;                    ///< a power of two
  int bank_groups = 0;              ///< a power of two
  int row_bytes = 0;                ///< of one bank
  bool bank_groups_lowest = false;  ///< all bank group bits directly above the interleave, not only one
  int queue_entries = 0;            ///< requests of 32 bytes that a controller chooses among
  int ccd = 0;                      ///< column to column, any bank
  int ccdl = 0;                     ///< column to column, same bank group
  int ccdwl = 0;                    ///< after an op-and-store, same bank group
  int rrd = 0;                      ///< activate to activate, any bank
  int rcd = 0;                      ///< activate to column
  int ras = 0;                      ///< activate to precharge
  int rp = 0;                       ///< precharge to activate
  int rc = 0;                       ///< activate to activate, same bank
  int cl = 0;                       ///< read command to data
  int wl = 0;                       ///< write command to data
  int cdlr = 0;                     ///< end of written data to read command
  int wr = 0;                       ///< end of written data to precharge
  int rtp = 0;                      ///< read to precharge

  // Tracker.
  int tracker_sets = 0;
  int tracker_ways = 0;

  // Copy engine.
  int dma_read_ahead_kib = 0;  ///< read but not yet sent; 0: no limit

  // Write-combining buffer of an SM.
  int write_combining_kib = 0;  ///< in which stores of a tile wait for the rest of it; 0: none

  // Memory-controller arbitration: a communication request waits while the queue holds as many requests as a
  // threshold, which depends on how full of the queue the kernel alone keeps.
  int threshold_high = 0;  ///< for a kernel of high memory intensity
  int threshold_medium = 0;
  int threshold_low = 0;
  double occupancy_high = 0;  ///< share of the queue from which on the intensity is high
  double occupancy_medium = 0;
  double occupancy_low = 0;   ///< below: no threshold
  int starvation_cycles = 0;  ///< since its last request communication goes first; 0: never

  bool operator==(OverlapHardware const&) const = default;
};

}  // namespace tessera
