// SPDX-License-Identifier: Apache-2.0
// From a plan of an MLP to the kernels that do what it says.
#pragma once

#include <string>

#include "load.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera::cli {

/// The plan of an MLP among those that the ready kernels can do: stream order, PDL and PDL with semaphores,
/// priced by the simulator.
Expected<Plan> plan_for_kernels(OperatorGraph const& graph, MachineProfile const& machine);

/// What kernels/mlp calls the pair of kernels that this plan of two GEMMs means: "<first> > <second>; 1
/// tiles, early weights". The order of tiles becomes the nearest that the kernels have. E0906 where there
/// are no kernels for it.
Expected<std::string> kernels_of(Plan const& plan, OperatorGraph const& graph, std::string const& data_type);

}  // namespace tessera::cli
