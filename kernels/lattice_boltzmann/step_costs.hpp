// SPDX-License-Identifier: Apache-2.0
// What a step is made of, counted, and figures of a machine's probe: for prices, and for the stages that the
// simulator takes. docs/design/notes-lattice-boltzmann.md says where each number is from. Without CUDA.
#pragma once

#include <tessera/measure/machine_profile.hpp>

#include "kernels/lattice_boltzmann/chip_block.hpp"

namespace tessera::lattice_boltzmann {

constexpr double k_bytes_per_cell = 2 * 4 * k_directions;  ///< each population read and written once

/// Instructions of a warp, counted in the machine code: an update of 32 cells from memory, and one of a trip;
/// on the chip a task of 32 cells of the rim, a task of the inside, and 32 cells that are shown and that are
/// taken from neighbours.
constexpr double k_update = 300, k_update_of_trip = 277, k_rim = 206, k_inside = 209, k_shown = 33,
                 k_taken = 53;
/// Of those a task of the rim with a block of the same cluster beside it has more: 328 where 224 are without,
/// in every other step.
constexpr double k_linked_more = 52;
/// Beside a step's instructions on the chip, where it waits for less than a whole barrier: until a block has
/// shown and taken its cells. Fitted.
constexpr double k_exchange_ns = 2250;
constexpr int k_schedulers = 4;  ///< of an SM
/// Expected: of the instructions that an SM can begin, what it begins.
constexpr double k_share_of_issue = 0.6;
/// Between what the probe reads from memory and what it writes there, what a copy gets of it.
constexpr double k_share_of_copy = 0.954;
/// Without a probe: of the profile's L2, what a probe reads.
constexpr double k_l2_read = 0.84;

/// A figure of the probe, where it has no such condition or this one, or what is given.
double measured(MachineProfile const& machine, char const* id, char const* condition, double is,
                double otherwise);
/// GHz, of SMs whose matrix units do nothing.
double clock_of(MachineProfile const& machine);
/// Bytes in a nanosecond: what the probe reads from the L2, and what a copy gets of memory.
double l2_rate(MachineProfile const& machine);
double copy_rate(MachineProfile const& machine);
/// The probe's barrier of all blocks, one on each SM.
double barrier_ns(MachineProfile const& machine, bool of_groups);

/// What the largest block of a cut does in a step on the chip, in tasks of 32 cells, and its cells.
struct ChipWork {
  double rim = 0, inside = 0, shown = 0, taken = 0;
  double linked = 0;  ///< of the rim's, those with a block of the same cluster beside them
  double shown_cells = 0, taken_cells = 0;
};
ChipWork work_of(ChipCut const& cut, ChipBlock const& block);

}  // namespace tessera::lattice_boltzmann
