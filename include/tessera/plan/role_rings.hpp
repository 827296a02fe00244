// SPDX-License-Identifier: Apache-2.0
// The rings of a launch with roles (docs/tile-operations.md), as its kernel, the host and the simulator know
// them. For device code, too.
#pragma once

namespace tessera {

/// How much rings hold and how much is on its way are two numbers: a full ring covers the time in which
/// nothing can be computed, and what is on its way delays every other load.
struct RoleRings {
  int slots = 0;       ///< of the ring that is filled early
  int slot_bytes = 0;  ///< a multiple of 1024
  /// Slots that may be on their way at once while the first of a tile are loaded, as many as the ring has:
  /// what is waited for between tiles comes sooner. 0: all.
  int in_flight = 0;
  int in_flight_within = 0;  ///< and while the rest of a tile is loaded; 0: all
  int late_slots = 0;        ///< of the ring that is filled when producers are complete
  int late_slot_bytes = 0;
  int scratch_bytes = 0;  ///< beside the rings, at least what operations say
  /// Of a room for what other blocks of the cluster send; there are two, behind everything else, so that they
  /// lie at the same place for all operations. A multiple of 16.
  int exchange_bytes = 0;
};

constexpr int k_role_slots = 40;
constexpr int k_role_late_slots = 16;
constexpr int k_role_ring_bytes = 223 * 1024;  ///< an SM of sm_90, less barriers and jobs
constexpr int k_role_argument_bytes = 256;
constexpr int k_cluster_exchanges = 2;  ///< barriers and rooms that take turns
constexpr int k_early_warps = 3;        ///< a thread issues a load every 300 to 570 cycles, however large
constexpr int k_late_warps = 4;

}  // namespace tessera
