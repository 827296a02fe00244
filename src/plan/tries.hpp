// SPDX-License-Identifier: Apache-2.0
// What is tried of a pipeline whose tiles are fixed: mechanisms, policies, orders, bands, grids. What comes
// of it is in the search.
#pragma once

#include <vector>

#include "plan/search.hpp"

namespace tessera {

/// Whether candidates' first launches start early.
bool may_chain(PlanOptions const& options, MachineProfile const& machine, Pipeline const& pipeline);

/// With all of the paper's optimizations, or with none ("vanilla").
Recipe recipe_for(Mechanism mechanism, bool optimized);

/// Microseconds in stream order, or why it cannot run.
Expected<double> price_stream_order(Search& search, Pipeline const& pipeline,
                                    std::vector<StageRecipe> const& forms = {});

/// PDL with its grid-wide wait, for a pipeline whose stream order has been priced; of a single stage,
/// chained.
void try_grid_waits(Search& search, CheckedPipeline const& checked,
                    std::vector<StageRecipe> const& forms = {});

/// Every mechanism with semaphores, every policy, form and order, as far as the budget goes.
Expected<void> try_tile_waits(Search& search, CheckedPipeline const& checked);

/// Other bands and grids of one stage after the other, from the best candidate on.
void try_other_forms(Search& search, CheckedPipeline const& checked);

/// The best candidate again, without each of its optimizations.
void ablate(Search& search, CheckedPipeline const& checked);

}  // namespace tessera
