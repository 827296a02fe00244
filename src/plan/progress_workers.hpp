// SPDX-License-Identifier: Apache-2.0
// One persistent launch, whose workers draw tickets.
#pragma once

#include <string>

#include "tessera/measure/machine_profile.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera::progress {

/// Proves that the workers of a plan's only launch never all wait, or refuses (E0302) with the ticket at
/// which they do.
Expected<std::string> prove_workers(Plan const& plan, MachineProfile const& machine);

}  // namespace tessera::progress
