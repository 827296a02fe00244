// SPDX-License-Identifier: Apache-2.0
// Which way to compute a flow's steps is fastest on a machine, by its profile alone. Without CUDA.
#pragma once

#include <string>
#include <tessera/measure/machine_profile.hpp>
#include <vector>

#include "kernels/lattice_boltzmann/step_plan.hpp"

namespace tessera::lattice_boltzmann {

/// What a variant is predicted to take.
struct Price {
  Variant variant = Variant::two_lattices;
  double ns_per_step = 0;
  std::string reason;  ///< what it is made of, or why the variant cannot be taken
  bool possible = true;
};

struct Choice {
  Variant variant = Variant::two_lattices;
  ChipCut cut;  ///< of the variant's blocks, where it has tiles
  double ns_per_step = 0;
  std::string reason;
  std::vector<Price> prices;  ///< of all variants
};

/// `free_bytes`: of device memory; 0: not known.
Price price_of(Problem const& problem, Variant variant, MachineProfile const& machine,
               long long free_bytes = 0);
/// Of a box that GPUs of one kind share in slabs, a launch for each step on each.
double slabs_ns(Problem const& problem, int ranks, MachineProfile const& machine);
/// The fastest that fits; refuses (E0569) where none does.
Expected<Choice> choose_variant(Problem const& problem, MachineProfile const& machine,
                                long long free_bytes = 0);
/// The same for a variant that was asked for: refuses (E0569) where it does not fit.
Expected<Choice> choose_variant(Problem const& problem, MachineProfile const& machine, Variant variant,
                                long long free_bytes = 0);

}  // namespace tessera::lattice_boltzmann
