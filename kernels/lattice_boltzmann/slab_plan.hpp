// SPDX-License-Identifier: Apache-2.0
// Slabs as a plan that the simulator takes. A plan is of one GPU, and one rank stands for all: in a periodic
// box whose planes divide by the ranks they do the same at the same time, so what a rank hears from its
// neighbours is what it tells them, a link later. Else it is the largest slab. Without CUDA.
#pragma once

#include "kernels/lattice_boltzmann/variant_plan.hpp"

namespace tessera::lattice_boltzmann {

/// What the probe says of telling a neighbour, and of what a step sends him.
struct SlabLink {
  double post_ns = 0;   ///< what a block of an end pays: stores over the link, their release, its arrival
  double later_ns = 0;  ///< from there until the neighbour may see that all of both ends has come
};
/// Refuses (E0303) profiles that were made without a second GPU.
Expected<SlabLink> link_of_slabs(Problem const& problem, MachineProfile const& machine);

/// The machine as a rank's steps use it: that of two_lattices, whose ends pay for their posts.
MachineProfile machine_of_slabs(Problem const& problem, int ranks, MachineProfile const& machine,
                                SlabLink const& link, StepFit const& fit = k_fitted_to_two_rows);

/// A rank's step: the cells of its ends, which wait for the neighbours' word, and those inside. Refuses
/// (E0569) fewer than two ranks, and more than planes, and what check_problem() does (E0568).
Expected<Loop> describe_slabs(Problem const& problem, int ranks);
/// So many steps, a launch for each, of which a block begins with an end's cells.
Expected<Plan> plan_slabs(Problem const& problem, int ranks, MachineProfile const& machine, int iterations,
                          StepFit const& fit = k_fitted_to_two_rows);

}  // namespace tessera::lattice_boltzmann
