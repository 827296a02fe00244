// SPDX-License-Identifier: Apache-2.0
// Can a plan get stuck? Decided before anything runs, for a number of SMs and an ordering guarantee.
#pragma once

#include <string>
#include <vector>

#include "../measure/machine_profile.hpp"
#include "plan.hpp"

namespace tessera {

/// Refuses (E0301) a plan with a stage, or a persistent launch, of which not even one block fits on an SM,
/// naming the resource and the numbers.
Expected<void> prove_residency(Plan const& plan, MachineProfile const& machine);

/// Proves that every schedule the ordering mechanism allows finishes, and says why in one sentence
/// with numbers; or refuses (E0302) with tiles that would wait on each other and what holds the SMs.
/// Refuses with E0301 as prove_residency does.
///
/// What is assumed of the hardware, and nothing more: a started block makes progress; blocks of one
/// kernel start in index order; PDL starts a dependent block only when all blocks of its primary have
/// triggered or exited; a persistent launch no larger than the resident capacity is resident; and, only
/// where machine.dispatches_in_launch_order, all blocks of a kernel that became ready earlier are placed
/// before any of a kernel that became ready later. First kernels of different streams become ready in any
/// order, and a kernel whose next block fits nowhere may hold back all others.
///
/// Exact for plans of up to 64 blocks; above, a plan is refused if it can get stuck and, in rare cases of
/// several stages with different resources, if that could not be excluded. docs/design/progress.md has
/// the argument.
///
/// `cluster_blocks`: of each stage's kernel, the blocks of a cluster, which get their places together on SMs
/// of one GPC; empty: there are no clusters.
Expected<std::string> prove_progress(Plan const& plan, MachineProfile const& machine,
                                     std::vector<int> const& cluster_blocks = {});

/// What a one-thread wait kernel (Launch::wait_kernel) holds while it waits.
constexpr Resources wait_kernel_resources() { return {1, 16, 0}; }

/// What one worker of a persistent launch holds: the most that any of its stages needs, resource by resource.
Resources worker_resources(Pipeline const& pipeline, Launch const& launch);

}  // namespace tessera
