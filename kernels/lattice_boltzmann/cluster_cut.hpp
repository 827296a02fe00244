// SPDX-License-Identifier: Apache-2.0
// Cuts whose blocks form clusters, and what a step of one costs by a machine's profile. Without CUDA.
#pragma once

#include <optional>
#include <tessera/measure/machine_profile.hpp>

#include "kernels/lattice_boltzmann/step_costs.hpp"

namespace tessera::lattice_boltzmann {

/// Blocks that are on the machine together, one on an SM, in clusters of so many: by its probe; without one
/// pairs on all SMs, and no larger clusters. 0: it has none.
int blocks_in_clusters(MachineProfile const& machine, int of);

/// What a step of a cut in clusters takes.
struct ClusterCost {
  double cells_ns = 0;  ///< instructions; until what leaves a cluster is shown and taken
  double waits_ns = 0;  ///< for blocks of other clusters, or where there are none of the own one
  double ns() const { return cells_ns + waits_ns; }
};
ClusterCost cluster_cost(ChipCut const& cut, MachineProfile const& machine);
/// From the end of a block's rim until its neighbours in the cluster may begin the next one.
double cluster_hop_ns(ChipCut const& cut, MachineProfile const& machine);
/// Is the box in one cluster, so that nothing goes through the L2?
constexpr bool in_one_cluster(ChipCut const& cut) { return cut.cluster_blocks() == cut.count(); }

/// The cheapest cut into clusters that fit; none if there is none.
std::optional<ChipCut> cluster_cut(Problem const& problem, MachineProfile const& machine);

}  // namespace tessera::lattice_boltzmann
