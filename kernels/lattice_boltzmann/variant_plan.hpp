// SPDX-License-Identifier: Apache-2.0
// Each variant as a loop of stages that say what their tiles cost, and as a plan of some iterations: for the
// simulator, which knows nothing of what they compute. Without CUDA.
#pragma once

#include <tessera/plan/plan.hpp>

#include "kernels/lattice_boltzmann/step_plan.hpp"

namespace tessera::lattice_boltzmann {

/// What a machine's kernel is called whose slices are tasks of steps.
constexpr char const* k_step_kernel = "lattice_boltzmann";

/// What counts and the probe do not say, each fitted to one row of a record; every other row is held out.
struct StepFit {
  double l2_share = 1;     ///< of what the probe reads from the L2, what a step gets that also writes there
  double exchange_ns = 0;  ///< of showing and taking on the chip, beyond instructions and ways
};
constexpr StepFit k_nothing_fitted{};
/// H200: two_lattices at 48x36x132; H100: chip_tokens at 48x36x132 (results/h*/lattice_boltzmann.json).
constexpr StepFit k_fitted_to_two_rows{0.588, 1524};

/// The machine as the steps of a variant use it: cycles of a slice by counted instructions, what a copy gets
/// of memory, the probe's L2 and clock, and what it costs there to tell others (MachineProfile::post_ns).
/// Nothing but `fit` is taken from how long steps took.
MachineProfile machine_of(Problem const& problem, Variant variant, MachineProfile const& machine,
                          StepFit const& fit = k_fitted_to_two_rows);

/// Steps of one iteration: trips take two.
constexpr int steps_of_iteration(Variant variant) { return variant == Variant::trips ? 2 : 1; }

/// One iteration. Each writes populations of its own: that what is overwritten was read is kept by the
/// kernels' order (docs/lattice-boltzmann.md), not by waits that would take time. Refuses (E0569) what does
/// not fit on the chip.
Expected<Loop> describe_variant(Problem const& problem, Variant variant, MachineProfile const& machine,
                                StepFit const& fit = k_fitted_to_two_rows);
/// So many iterations: launches of which each starts early and waits for the end of the one before, or one
/// persistent launch.
Expected<Plan> plan_variant(Problem const& problem, Variant variant, MachineProfile const& machine,
                            int iterations, StepFit const& fit = k_fitted_to_two_rows);

}  // namespace tessera::lattice_boltzmann
