// SPDX-License-Identifier: Apache-2.0
// Which rings a launch with roles can have: one rule for the kernel and for the simulator.
#pragma once

#include "../diagnostic.hpp"
#include "role_rings.hpp"

namespace tessera {

/// Refuses (E0564) rings that the kernel cannot have: more than k_role_slots slots or k_role_late_slots late
/// ones, fewer than warps that fill them (none, if no operation has roles, and so 0 bytes of arguments),
/// slots that are not multiples of 1024 bytes, more than an SM of sm_90 has, fewer than 0 slots in flight,
/// more arguments than k_role_argument_bytes. Warps are other than the kernel's where a simulation asks what
/// they would change.
Expected<void> check_rings(RoleRings const& rings, int most_argument_bytes, SourceLine const& where,
                           int early_warps = k_early_warps, int late_warps = k_late_warps);

}  // namespace tessera
