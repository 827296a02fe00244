// SPDX-License-Identifier: Apache-2.0
// The steps of cuSync's table V, of any chain of two kernels: wait kernel, tickets and loads in the order of
// the kernel, and then one optimization after the other.
#pragma once

#include <vector>

#include "tessera/check/check.hpp"
#include "tessera/plan/build.hpp"

namespace tessera {

constexpr char const* k_cusync_steps[] = {"none", "R", "WR", "WRT"};

/// What to ask the planner for, for a step of that list.
Recipe cusync_step(int number, std::vector<Policy> policies);

/// Microseconds of one launch of the chain.
Expected<double> simulated_us(CheckedPipeline const& checked, MachineProfile const& machine,
                              Recipe const& recipe);

}  // namespace tessera
