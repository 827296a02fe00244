// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernel whose cells stay on the chip.
#pragma once

#include <tessera/sync/data_token.cuh>

#include "kernels/lattice_boltzmann/chip_cell.hpp"
#include "kernels/lattice_boltzmann/problem.hpp"

namespace tessera::lattice_boltzmann {

/// How blocks learn that what they need of a step is there.
enum class Handover {
  tokens,         ///< each word carries the step that wrote it
  semaphores,     ///< one for each block, which its neighbours wait for
  split_barrier,  ///< Tessera's barrier of all blocks: the inside is computed between arrival and wait
  barrier,        ///< the same as a whole
  cooperative,    ///< cooperative groups' barrier
};

constexpr int k_chip_threads = 768;
/// A cell in the order of a block: its number, whether it lies at the rim or beside a wall, and the latter.
constexpr unsigned k_number = 0x0FFF, k_special = 0x4000, k_has_links = 0x8000, k_no_cell = 0x7FFF;
/// What is shown of a population that bounces back: no number that arithmetic makes.
constexpr unsigned k_nothing = 0xFFABCDEF;
/// Cells that a block has room for, and tasks of 32 cells: those of the rim and of the inside begin anew.
constexpr int k_chip_cells = k_slot;
constexpr int k_chip_shared_bytes = k_directions * k_slot * 4 + 2 * (k_slot + 64);
static_assert(k_slot <= 4096 && k_chip_shared_bytes + 512 <= 227 * 1024, "");
constexpr int k_semaphores_apart = 32;  ///< words: a line each

/// For tests.
struct Disturbance {
  unsigned late = 0;  ///< not 0: warps sleep up to 4 us now and then
  int silent_block = -1;
  unsigned silent_from = 0;  ///< from this step of a launch on the block tells nobody anything
};

struct ChipArguments {
  ChipCut cut;
  long long cells;     ///< of the box
  float* lattice;      ///< [direction][cell], after the last collision
  Links const* links;  ///< of each cell of the box; null: no walls
  unsigned steps = 0;
  Handover exchange = Handover::tokens;
  Disturbance disturbance;
};

/// A cell that a block takes from its neighbours: where it is shown, and where it goes.
struct Taken {
  int shown;
  /// Place of the cell in front of it, plus k_taken_offset; from bit 16 on which words go to a cell of this
  /// block; from bit 24 on the side.
  unsigned to;
};
constexpr int k_taken_offset = 4096;

/// Parts of the chain's memory for tokens, zeroed with it.
struct ChipMemory {
  unsigned* steps;       ///< of the launches before, for each block
  unsigned* semaphores;  ///< a line for each block
  unsigned* barrier;
  Packet<3>* shown;  ///< of both parities: two for each cell that is shown
  Taken* taken;      ///< for each block as many as `most_taken`
  int most_taken;
};

void const* chip_kernel_address();

}  // namespace tessera::lattice_boltzmann
