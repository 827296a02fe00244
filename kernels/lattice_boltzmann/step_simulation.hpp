// SPDX-License-Identifier: Apache-2.0
// What a step of each variant takes by the simulator, from a machine's profile. Without CUDA.
#pragma once

#include "kernels/lattice_boltzmann/slab_plan.hpp"

namespace tessera::lattice_boltzmann {

/// A step of many: what further iterations add, simulated. Refuses what plan_variant() and simulate() do.
Expected<double> simulate_step_ns(Problem const& problem, Variant variant, MachineProfile const& machine,
                                  StepFit const& fit = k_fitted_to_two_rows);
/// The same of slabs on so many GPUs. Refuses what plan_slabs() and simulate() do.
Expected<double> simulate_slabs_ns(Problem const& problem, int ranks, MachineProfile const& machine,
                                   StepFit const& fit = k_fitted_to_two_rows);

}  // namespace tessera::lattice_boltzmann
