// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernel whose cells stay on the chip.
#pragma once

#include <tessera/sync/data_token.cuh>

#include "kernels/lattice_boltzmann/chip_cell.hpp"
#include "kernels/lattice_boltzmann/disturbance.hpp"
#include "kernels/lattice_boltzmann/problem.hpp"

namespace tessera::lattice_boltzmann {

/// How blocks learn that what they need of a step is there.
enum class Handover {
  tokens,         ///< each word carries the step that wrote it
  semaphores,     ///< one for each block, which its neighbours wait for
  split_barrier,  ///< Tessera's barrier of all blocks: the inside is computed between arrival and wait
  barrier,        ///< the same as a whole
  cooperative,    ///< cooperative groups' barrier
  clusters,       ///< as by tokens between clusters; inside of one by words in shared memory
};

#ifndef TESSERA_CHIP_THREADS
#define TESSERA_CHIP_THREADS 768
#endif
constexpr int k_chip_threads = TESSERA_CHIP_THREADS;
/// Cells that a block has room for.
constexpr int k_chip_cells = k_slot;
/// The cells, and the order of the inside.
constexpr int k_chip_shared_bytes = k_directions * k_slot * 4 + 2 * k_most_inside;
static_assert(k_slot <= 4096 && k_chip_shared_bytes + sizeof(ChipConstants) + 128 <= 227 * 1024, "");
/// What a wait for a neighbour in the cluster writes as StallRecord::semaphore, and whom it names.
TESSERA_HOST_DEVICE constexpr long long partner_wait_of(int rank) { return data_token_of(rank); }
constexpr int awaited_rank(long long semaphore) {
  return semaphore >= k_data_token ? -1 : static_cast<int>(data_token_of(0) - semaphore);
}
constexpr int k_semaphores_apart = 32;  ///< words: a line each

struct ChipArguments {
  ChipCut cut;
  long long cells;  ///< of the box
  float* lattice;   ///< [direction][cell], after the last collision
  unsigned steps = 0;
  Handover exchange = Handover::tokens;
  Disturbance disturbance;
};

/// ChipTables on the device.
struct ChipLookup {
  ChipConstants const* blocks;
  unsigned const* rim;
  OwnPlaces const* beside_walls;  ///< null: no walls
  std::uint16_t const* inside;
  Shows const* shows;
  Taken const* takes;
};

/// Parts of the chain's memory for tokens, zeroed with it.
struct ChipMemory {
  unsigned* steps;       ///< of the launches before, for each block
  unsigned* semaphores;  ///< a line for each block
  unsigned* barrier;
  Packet<3>* shown;  ///< of both parities: two for each cell that is shown
};

/// `walls`: is there any?
void const* chip_kernel_address(bool walls);

}  // namespace tessera::lattice_boltzmann
