// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tessera/plan/build.hpp"

namespace tessera {

/// build_plan() for a pipeline that is known to be sound without a CheckedPipeline at hand: stream order
/// of a tiled workload depends on nothing that check() finds out.
Expected<Plan> assemble(Pipeline const& pipeline, std::vector<BufferReuse> const& reuses,
                        MachineProfile const& machine, Recipe const& recipe);

/// True if a single post makes a value of one of the stage's sets: what a plain store needs.
bool has_single_posts(Plan const& plan, int stage);

/// What the recipe's mechanism needs and the machine or a kernel does not have (E0303).
std::optional<Diagnostic> cannot_run(Pipeline const& pipeline, MachineProfile const& machine,
                                     Recipe const& recipe);

/// R where a stage waits while it could load an operand that has no producer, wherever it starts early.
void load_early_where_possible(Plan& plan);

/// Which optimizations a plan ended up with: "+WRT", "+R", "" .
std::string optimization_text(Plan const& plan);
/// Policies of the dependences, each name once: "StridedSync + TileSync".
std::string policy_text(Plan const& plan);
/// Orders and grids that are not one block a tile in row major order: "columns persistent -> rows", or once
/// what is the same for all stages.
std::string form_text(Plan const& plan);
/// "128x256x64 -> 64x128x64 / 4", or empty when no stage names a kernel.
std::string kernel_text(Pipeline const& pipeline);

}  // namespace tessera
