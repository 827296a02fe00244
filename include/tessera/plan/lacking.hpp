// SPDX-License-Identifier: Apache-2.0
// What a plan asks of its machine beside room, and of its kernels.
#pragma once

#include <optional>

#include "../measure/machine_profile.hpp"
#include "plan.hpp"

namespace tessera {

/// E0303 if a launch starts early and the machine has no programmatic dependent launch.
std::optional<Diagnostic> lacking_launch(Plan const& plan, MachineProfile const& machine);

/// E0303 if a stage is to do what its kernel cannot (Stage::can), or has a persistent grid where others run
/// beside it: that they leave room is proved only of stages with a block for each tile.
std::optional<Diagnostic> lacking_ability(Plan const& plan);

/// The first diagnostic, for those who have no launches yet.
Diagnostic no_early_launches(Pipeline const& pipeline, MachineProfile const& machine);

}  // namespace tessera
