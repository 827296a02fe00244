// SPDX-License-Identifier: Apache-2.0
// Steps of a box as a loop of one stage, and how the box is cut into its tiles. Without CUDA.
#pragma once

#include <optional>
#include <tessera/plan/loop_plan.hpp>

#include "kernels/lattice_boltzmann/chip_block.hpp"
#include "kernels/lattice_boltzmann/problem.hpp"

namespace tessera::lattice_boltzmann {

/// Ways to compute the same steps.
enum class Variant {
  two_lattices,        ///< a launch for each step, from one lattice to another
  in_place,            ///< the same in one lattice: half of the memory
  trips,               ///< a launch for each two steps, the cells between them on the chip; two lattices
  barrier,             ///< one launch, both lattices, behind Tessera's barrier of all blocks
  cooperative,         ///< behind cooperative groups' barrier
  neighbours,          ///< one launch of a loop: a tile waits for the tiles around it
  chip_tokens,         ///< cells stay on the chip; words between blocks carry their step
  chip_semaphores,     ///< on the chip; blocks wait for their neighbours' semaphores
  chip_split_barrier,  ///< on the chip; Tessera's barrier, the inside between arrival and wait
  chip_barrier,        ///< on the chip; Tessera's barrier as a whole
  chip_cooperative,    ///< on the chip; cooperative groups' barrier
  chip_clusters,       ///< as chip_tokens between clusters; in one, blocks reach into each other's memory
};
constexpr Variant k_variants[] = {
    Variant::two_lattices, Variant::in_place,         Variant::trips,
    Variant::barrier,      Variant::cooperative,      Variant::neighbours,
    Variant::chip_tokens,  Variant::chip_semaphores,  Variant::chip_split_barrier,
    Variant::chip_barrier, Variant::chip_cooperative, Variant::chip_clusters};

/// "two_lattices"; the names of the enumerators.
std::string to_string(Variant variant);
std::optional<Variant> variant_named(std::string const& name);
constexpr bool on_chip(Variant variant) { return variant >= Variant::chip_tokens; }
/// A launch for each step, or for a few.
constexpr bool has_launches(Variant variant) { return variant <= Variant::trips; }
constexpr bool has_two_lattices(Variant variant) { return !on_chip(variant) && variant != Variant::in_place; }

/// Trips of two steps among so many of one call: pairs of them, so that behind an even number of steps cells
/// are in the first lattice, as with the other variants. The rest are single steps.
constexpr long long trips_of(long long steps) { return steps / 4 * 2; }
/// Launches of so many steps.
constexpr long long launches_of(Variant variant, long long steps) {
  return variant == Variant::trips ? steps - trips_of(steps) : steps;
}

constexpr long long k_most_steps = 1'000'000'000;  ///< of one call

/// E0569.
Diagnostic does_not_fit(std::string message, std::string way_out);

/// Bytes of device memory that a variant takes for a problem, before any is taken.
long long memory_of(Problem const& problem, Variant variant);
/// Refuses (E0569) if that, and `beside` for the caller, is more than is free, and names variants that take
/// less.
Expected<void> check_memory(Problem const& problem, Variant variant, long long free_bytes,
                            long long beside = 0);

/// Refuses (E0569) cuts that are not of the problem's box, that have an axis of no blocks or of more than
/// cells, blocks that are larger than the chip has room for, and clusters of too many blocks or that blocks
/// do not fill.
Expected<void> check_cut(Problem const& problem, ChipCut const& cut);
/// The cheapest cut into no more blocks than SMs, each of which fits on its SM; none if there is none.
std::optional<ChipCut> chip_cut(Problem const& problem, int sms);
/// A cut into no more tiles than workers, as even as can be.
ChipCut tile_cut(Problem const& problem, int workers);
/// The cheapest cut for trips of two steps: tiles along x and y, and along z what a block goes through plane
/// by plane.
ChipCut trip_cut(Problem const& problem, int sms);
/// What that cut costs one SM, in cells' updates: those of the cells around the tiles counted in.
double updates_of_trip(ChipCut const& cut, int sms);
/// Is there a wall in it?
bool has_walls(Problem const& problem);
/// Warps' tasks of the largest block, what a cell of the rim takes beyond one of the inside counted in.
double tasks_of(ChipCut const& cut);

/// The steps of a box that is cut into tiles: each tile of a step reads those around it of the step before.
Expected<Loop> describe_steps(ChipCut const& cut, Resources const& resources);
/// As one persistent launch with a worker for each tile; `tokens`: words carry their step.
Expected<LoopPlan> plan_steps(ChipCut const& cut, Resources const& resources, MachineProfile const& machine,
                              bool tokens);
/// As a launch that reads all of the launch before; kernels choose their blocks by themselves.
Expected<Plan> plan_launch(MachineProfile const& machine);

}  // namespace tessera::lattice_boltzmann
