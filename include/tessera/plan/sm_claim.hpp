// SPDX-License-Identifier: Apache-2.0
// Which plans can be proved to finish beside each other on one GPU.
#pragma once

#include <vector>

#include "../measure/machine_profile.hpp"
#include "plan.hpp"

namespace tessera {

/// What a plan that is proved by itself asks of the SMs that others use at the same time.
struct SmClaim {
  int held = 0;    ///< at most so many SMs have blocks of it that wait for blocks without a place; often none
  int needed = 1;  ///< it finishes if so many SMs are free of others' waiting blocks

  bool operator==(SmClaim const&) const = default;
};

/// Precondition: prove_progress() accepts the plan. Stream order, PDL and tickets in an order in which
/// producers come first hold no SM: what their blocks wait for has a place. `all_resident`: by launch,
/// kernels that need all of their blocks at once whatever the plan's tickets say; empty: none.
/// `cluster_blocks` as for prove_progress().
SmClaim sm_claim(Plan const& plan, MachineProfile const& machine, std::vector<int> const& cluster_blocks = {},
                 std::vector<bool> const& all_resident = {});

/// Do all of them finish, in whatever order their blocks get places? Each must find the SMs that it needs
/// beside all that the others may hold. SMs count as a whole, so that blocks of any size are covered.
bool fit_together(std::vector<SmClaim> const& claims, int sms);

}  // namespace tessera
