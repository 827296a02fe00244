// SPDX-License-Identifier: Apache-2.0
// In which bands and grids a stage's blocks are tried.
#pragma once

#include <optional>
#include <vector>

#include "tessera/plan/build.hpp"
#include "tessera/plan/choose.hpp"

namespace tessera {

/// For a stage by itself: the extreme orders, column by column and row by row, with a persistent grid and
/// with a block a tile, as far as its kernel has them. Only kernels that take tiles in bands and in no other
/// order choose a band, and only measured ones a grid: of others nothing is known that could tell them apart.
/// One form, the planner's rule, where there is no choice. What costs the same comes first where it is faster
/// in practice: columns, persistent.
std::vector<StageRecipe> forms_of(Stage const& stage, MachineProfile const& machine);

/// The same with bands of 4 and 8 rows; without persistent grids where the mechanism has none.
std::vector<StageRecipe> all_forms_of(Stage const& stage, MachineProfile const& machine, Mechanism mechanism);

/// For stages that wait for tiles, which take them row by row or nearly so: bands of 1 and 4 rows, and later
/// stages as one block a tile or persistent. At least one.
std::vector<std::vector<StageRecipe>> forms_behind_tiles(Pipeline const& pipeline,
                                                         MachineProfile const& machine, Mechanism mechanism);

/// A stage of a pipeline without its chain. What another stage wrote is taken to be in L2, as it is in the
/// chain.
Pipeline isolated(Pipeline const& pipeline, std::size_t stage);

/// The fastest form of a pipeline of one stage.
struct Alone {
  Plan plan;
  Recipe recipe;
  double us = 0;
};
/// Nothing if no form can run. Prices at most `most` of them.
std::optional<Alone> fastest_alone(Pipeline const& stage, MachineProfile const& machine, Pricer const& price,
                                   Recipe recipe, std::size_t most = 4);

/// fastest_alone() of each stage, once for those that are the same. Empty where no stage has a choice.
std::vector<StageRecipe> fastest_forms(Pipeline const& pipeline, MachineProfile const& machine,
                                       Pricer const& price);

}  // namespace tessera
